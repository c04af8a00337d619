-- Promises: one partition among those asked for which no longer holds the seqs from where it was to be read, if any; or one that does not
--   hold them up to where it was to be read yet (`behind`: this is a replica that lags).
-- Locks: nothing.
with lanes as materialized (
    select (l.j ->> 0)::bigint as id, (l.j ->> 1)::bigint as low, (l.j ->> 2)::bigint as high
      from (select current_setting('queen.ask')::jsonb as j) s, jsonb_array_elements(s.j -> 'lanes') l(j)
)
select q.name as queue, p.name as partition, p.first_seq, p.next_seq < l.high as behind
  from lanes l
  join queen.partitions p on p.id = l.id and (p.first_seq > l.low or p.next_seq < l.high)
  join queen.queues q on q.id = p.queue_id
 limit 1
