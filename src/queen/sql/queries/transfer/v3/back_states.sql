-- The cursors and leases of the source are as the target's: those that arrived, and none of those that are gone.
delete from partition_consumers c using back_gone g where c.partition_id = g.former_id and c.consumer_group = g.consumer_group;
insert into partition_consumers (
    partition_id, consumer_group, last_consumed_id, last_consumed_created_at, total_messages_consumed, total_batches_consumed, last_consumed_at,
    lease_expires_at, lease_acquired_at, message_batch, batch_size, acked_count, worker_id, batch_retry_count)
select b.former_id, b.consumer_group, coalesce(place.id, '00000000-0000-0000-0000-000000000000'), place.at, b.consumed, b.batches, b.last_consumed_at,
       case when b.lease_token is not null then b.lease_expires_at end, case when b.lease_token is not null then b.lease_acquired_at end,
       case when b.lease_token is not null then to_jsonb(b.batch) end, coalesce(cardinality(b.batch), 0), 0, b.lease_token, b.retry_count
  from back_states b
  left join messages l on l.id = b.position_id
  left join messages n on n.id = b.next_id
 cross join lateral (select case when l.id is not null then l.created_at when n.id is not null then n.created_at - interval '1 microsecond'
                                 else b.last_created_at end as at) t
 cross join lateral (select t.at, case when t.at is null then null when l.id is not null then l.id else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end as id) place
    on conflict (partition_id, consumer_group) do update
   set last_consumed_id = excluded.last_consumed_id, last_consumed_created_at = excluded.last_consumed_created_at,
       total_messages_consumed = excluded.total_messages_consumed, total_batches_consumed = excluded.total_batches_consumed,
       last_consumed_at = excluded.last_consumed_at, lease_expires_at = excluded.lease_expires_at, lease_acquired_at = excluded.lease_acquired_at,
       message_batch = excluded.message_batch, batch_size = excluded.batch_size, acked_count = excluded.acked_count, worker_id = excluded.worker_id,
       batch_retry_count = excluded.batch_retry_count
