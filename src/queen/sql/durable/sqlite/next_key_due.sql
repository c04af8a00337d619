-- When the next key of a queue becomes ready, after :now.
select min(ready_at) from mailbox_keys where queue = :queue and ready_at > :now
