-- Promises: the group is known on the queue, from its first message on; false when it has all its cursors.
-- Locks: see queen.subscribe.
select queen.subscribe(q.name, j ->> 'group', 'all', null) as more
  from (select current_setting('queen.ask')::jsonb as j) s
  join queen.queues q on q.id = (s.j ->> 'queue')::bigint
