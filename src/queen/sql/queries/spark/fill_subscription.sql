-- Promises: the next cursors of a new group; true while there are more.
-- Locks: see queen.fill_subscription.
select queen.fill_subscription(q.name, j ->> 'group') as more
  from (select current_setting('queen.ask')::jsonb as j) s
  join queen.queues q on q.id = (s.j ->> 'queue')::bigint
