-- Keeps how far a locked item is, for whoever gets it next.
update queen_durable.work_items set body = $2 where lock_token = $1
