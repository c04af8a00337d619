-- Promises: the queues of a namespace and/or task (null or '' = any) in the order a pop across queues tries them: higher priority first,
--   then by name; paused ones are left out.
-- Locks: nothing.
create or replace function queen.matching_queues(p_namespace text, p_task text) returns setof text
language sql stable as $$
    select q.name from queen.queues q
     where (coalesce(p_namespace, '') = '' or q.namespace = p_namespace)
       and (coalesce(p_task, '') = '' or q.task = p_task)
       and not q.paused
     order by q.priority desc, q.name
$$;
