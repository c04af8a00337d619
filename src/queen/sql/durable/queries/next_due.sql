-- When the next message of either queue becomes visible.
select least(
    (select min(ready_at) from queen_durable.mailbox_keys where queue = 'orchestrator'),
    (select min(ready_at) from queen_durable.work_items)
)
