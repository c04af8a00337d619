-- Promises: how many messages of the queues lie in [from, to), counted up to `most`.
-- Locks: nothing.
select queen.count_messages(array(select jsonb_array_elements_text(j -> 'queues')::bigint), (j ->> 'from')::bigint, (j ->> 'to')::bigint,
                            (j ->> 'most')::bigint) as n
  from (select current_setting('queen.ask')::jsonb as j) s
