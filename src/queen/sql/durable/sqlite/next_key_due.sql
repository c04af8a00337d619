-- When the next key of a queue becomes ready, after :now, among those whose code is in :handlers (json list, null: any).
select min(ready_at) from mailbox_keys
where queue = :queue and ready_at > :now
  and (:handlers is null or handler = '' or handler in (select value from json_each(:handlers)))
