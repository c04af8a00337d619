-- Promises: the queues asked for by name, by pattern (whole name) or by namespace; all of them when nothing is asked.
-- Locks: nothing.
with ask as materialized (select current_setting('queen.ask')::jsonb as j)
select q.id, q.name, q.encryption_enabled, q.max_queue_size > 0 as limited
  from queen.queues q, ask a
 where (a.j -> 'names' is null or q.name in (select jsonb_array_elements_text(a.j -> 'names')))
   and (a.j ->> 'pattern' is null or q.name ~ ('^(?:' || (a.j ->> 'pattern') || ')$'))
   and (a.j ->> 'namespace' is null or q.namespace = a.j ->> 'namespace')
 order by q.id
