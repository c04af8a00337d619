-- Promises: which of the writers whose names begin like this have stored their batch completely, and how many rows were new.
-- Locks: nothing.
with ask as materialized (select current_setting('queen.ask')::jsonb ->> 'prefix' as prefix)
select s.name, sum(b.stored)::bigint as stored, sum(b.duplicates)::bigint as duplicates
  from ask a
  join queen.sinks s on starts_with(s.name, a.prefix)
  join queen.sink_batches b on b.sink_id = s.id
 group by s.id, s.name
having count(*) = max(b.buckets)
