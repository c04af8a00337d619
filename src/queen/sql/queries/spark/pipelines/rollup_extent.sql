-- Promises: the first and last hour with rollups of whole queues in [since, until).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until
      from (select current_setting('queen.ask')::jsonb as j) s
)
select min(r.bucket) as low, max(r.bucket) as high
  from ask a join queen.rollups r on r.grain = 'hour' and r.partition = '' and r.bucket >= a.since and r.bucket < a.until
