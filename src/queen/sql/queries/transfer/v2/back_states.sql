-- The cursors, statuses and leases of the source are as the target's: those that arrived, and none of those that are gone.
-- Old code may read cursors, status rows or both: whatever a group had is made to say the same.
delete from partition_cursors c using back_gone g where c.partition_id = g.former_id and c.consumer_group = g.consumer_group;
delete from partition_leases c using back_gone g where c.partition_id = g.former_id and c.consumer_group = g.consumer_group;

create temporary table places on commit drop as
select b.*, t.at, case when t.at is null then null when l.id is not null then l.id else 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid end as last
  from back_states b
  left join messages l on l.id = b.position_id
  left join messages n on n.id = b.next_id
 cross join lateral (select case when l.id is not null then l.created_at when n.id is not null then n.created_at - interval '1 microsecond'
                                 else b.last_created_at end as at) t;

create temporary table fates on commit drop as
select p.consumer_group, m.id, coalesce((m.created_at, m.id) <= (p.at, p.last), false) or coalesce(m.id = any (p.skipped), false) as finished
  from places p join messages m on m.partition_id = p.former_id;

delete from messages_status s using fates f
 where s.message_id = f.id and coalesce(s.consumer_group, '__QUEUE_MODE__') = f.consumer_group and not f.finished
   and s.status in ('completed', 'failed', 'dead_letter');
update messages_status s set status = 'completed', completed_at = now(), lease_expires_at = null
  from fates f
 where s.message_id = f.id and coalesce(s.consumer_group, '__QUEUE_MODE__') = f.consumer_group and f.finished
   and s.status in ('pending', 'processing');
insert into messages_status (message_id, consumer_group, status, completed_at)
select f.id, f.consumer_group, 'completed', now() from fates f
 where f.finished and not exists (select from messages_status s where s.message_id = f.id and coalesce(s.consumer_group, '__QUEUE_MODE__') = f.consumer_group)
    on conflict do nothing;
update messages_status s set status = 'dead_letter', error_message = d.error_message, failed_at = d.failed_at
  from back_dead_letters d join fates f on f.id = d.message_id and f.consumer_group = d.consumer_group
 where s.message_id = d.message_id and coalesce(s.consumer_group, '__QUEUE_MODE__') = d.consumer_group and s.status = 'completed' and f.finished;

insert into partition_cursors (partition_id, consumer_group, last_consumed_created_at, last_consumed_id, total_messages_consumed, total_batches_consumed,
                               last_consumed_at)
select p.former_id, p.consumer_group, p.at, p.last, p.consumed, p.batches, p.last_consumed_at from places p
    on conflict (partition_id, consumer_group) do update
   set last_consumed_created_at = excluded.last_consumed_created_at, last_consumed_id = excluded.last_consumed_id,
       total_messages_consumed = excluded.total_messages_consumed, total_batches_consumed = excluded.total_batches_consumed,
       last_consumed_at = excluded.last_consumed_at;

update partition_leases l set released_at = now() from places p
 where l.partition_id = p.former_id and l.consumer_group = p.consumer_group and p.lease_token is null and l.released_at is null;
insert into partition_leases (partition_id, consumer_group, lease_expires_at, message_batch, batch_size, acked_count, created_at)
select p.former_id, p.consumer_group, p.lease_expires_at, to_jsonb(p.batch), coalesce(cardinality(p.batch), 0), 0, p.lease_acquired_at
  from places p where p.lease_token is not null
    on conflict (partition_id, consumer_group) do update
   set lease_expires_at = excluded.lease_expires_at, message_batch = excluded.message_batch, batch_size = excluded.batch_size, acked_count = 0,
       created_at = excluded.created_at, released_at = null
