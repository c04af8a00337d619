-- When the next message of either queue becomes visible.
select least(
    (select min(first.ready_at)
     from unnest(queen_durable.needed_handlers()) as needed (handler)
     cross join lateral (
         select k.ready_at from queen_durable.mailbox_keys k
         where k.queue = 'orchestrator' and k.handler = needed.handler and k.ready_at is not null
         order by k.ready_at limit 1
     ) as first),
    (select min(ready_at) from queen_durable.work_items where ready_at < 9000000000000000)
)
