-- Promises: see queen.mirror_group.
-- Locks: see queen.mirror_group.
select queen.mirror_group(array(select jsonb_array_elements_text(j -> 'queues')::bigint), j ->> 'group', (j ->> 'from')::bigint,
                          (j ->> 'to')::bigint) as moved
  from (select current_setting('queen.ask')::jsonb as j) s
