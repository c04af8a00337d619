-- Promises: the messages that groups gave up on in [since, until), of the queues asked for. Payloads of encrypted queues stay sealed here.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           case when j -> 'queues' is not null then array(select jsonb_array_elements_text(j -> 'queues')::bigint) end as queues
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, p.name as partition, d.partition_id, d.consumer_group, d.seq, d.message_id::text as id, d.transaction_id,
       d.trace_id::text as trace_id, d.parent_id::text as parent_id, d.payload::text as payload, d.is_encrypted as sealed, d.producer_sub,
       d.created_at, d.failed_at, d.error_message, d.retry_count::bigint as retry_count, d.evicted, d.redriven_at,
       d.redriven_as::text as redriven_as
  from ask a
  join queen.dead_letter_queue d on d.failed_at >= a.since and d.failed_at < a.until and (a.queues is null or d.queue_id = any (a.queues))
  join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
