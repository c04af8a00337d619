-- Promises: the batches handed out to consumer groups that ended in [since, until), of the queues asked for.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           case when j -> 'queues' is not null then array(select jsonb_array_elements_text(j -> 'queues')::bigint) end as queues
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, p.name as partition, d.partition_id, d.consumer_group, d.batch_from, d.batch_to, d.leased_at, d.ended_at,
       d.outcome, d.failed::bigint as failed, d.retry_count::bigint as retry_count, d.lease_id::text as lease_id
  from ask a
  join queen.deliveries d on d.ended_at >= a.since and d.ended_at < a.until and (a.queues is null or d.queue_id = any (a.queues))
  left join queen.queues q on q.id = d.queue_id
  left join queen.partitions p on p.id = d.partition_id
