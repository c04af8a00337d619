-- Promises: writes batches of the past into the delivery log.
-- Locks: nothing (inserts).
insert into queen.deliveries (queue_id, partition_id, consumer_group, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                              lease_id, outcome)
select d.queue_id, d.partition_id, d.consumer_group, d.batch_from, d.batch_to, d.leased_at, d.ended_at, d.retry_count, d.failed,
       d.lease_id, d.outcome
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::integer[],
              $9::integer[], $10::uuid[], $11::text[])
       d(queue_id, partition_id, consumer_group, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id, outcome)
