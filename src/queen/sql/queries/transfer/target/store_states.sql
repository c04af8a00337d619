-- The cursors, skips and leases of the partitions that arrived (incoming_states) are as the source has them. No message is in flight here:
-- nobody works on this schema yet, so there is no cursor to move, only rows to write.
create temporary table states on commit drop as
select i.*, p.next_seq, l.lease_id, c.cursor,
       case when i.from_id is null then c.cursor + 1
            else greatest(c.cursor + 1, queen_transfer.seq_of(i.partition_id, i.from_at, i.from_id)) end as batch_from,
       case when i.to_id is null then least(c.cursor + i.batch_count, p.next_seq - 1)
            else queen_transfer.seq_of(i.partition_id, i.to_at, i.to_id) end as batch_to
  from incoming_states i
  join partitions p on p.id = i.partition_id
 cross join lateral (select greatest(p.first_seq - 1, case when i.position_at is null then 0
                            else queen_transfer.seq_of(i.partition_id, i.position_at, i.position_id) - i.before::integer end) as cursor) c
 cross join lateral (select case when i.lease_token ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then i.lease_token::uuid
                                 else md5(i.lease_token)::uuid end as lease_id) l;

update states set lease_id = null where batch_to <= cursor or lease_expires_at is null;

delete from skips s where s.partition_id in (select partition_id from states);
insert into skips (partition_id, consumer_group, seq)
select s.partition_id, s.consumer_group, m.seq
  from states s cross join unnest(s.skipped_id) k(id) join messages m on m.partition_id = s.partition_id and m.id = k.id;
update partitions p set has_skips = n.has
  from (select s.partition_id as id, bool_or(s.skipped_id is not null) as has from states s group by 1) n
 where p.id = n.id and p.has_skips <> n.has;

delete from partition_consumers c
 where c.partition_id in (select partition_id from states)
   and not exists (select from states s where s.partition_id = c.partition_id and s.consumer_group = c.consumer_group);
insert into partition_consumers (
    partition_id, queue_id, consumer_group, last_consumed_seq, last_consumed_at, total_messages_consumed, total_batches_consumed,
    total_messages_delivered, retry_count, counted_to, lease_id, lease_expires_at, lease_acquired_at, batch_from, batch_to, ready_at, evict_at)
select s.partition_id, s.queue_id, s.consumer_group, s.cursor, s.last_consumed_at, s.consumed, s.batches, s.consumed,
       case when s.cursor + 1 < s.next_seq then s.retry_count else 0 end,
       case when s.lease_id is not null or (s.retry_count > 0 and s.cursor + 1 < s.next_seq) then greatest(s.batch_to, s.cursor + 1) else 0 end,
       s.lease_id, case when s.lease_id is not null then s.lease_expires_at end, case when s.lease_id is not null then s.lease_acquired_at end,
       case when s.lease_id is not null then s.batch_from end, case when s.lease_id is not null then s.batch_to end,
       case when s.lease_id is not null then s.lease_expires_at when s.cursor + 1 < s.next_seq then now() end,
       case when q.max_wait_time_seconds > 0 and s.cursor + 1 < s.next_seq then now() end
  from states s join queues q on q.id = s.queue_id
    on conflict (partition_id, consumer_group) do update
   set last_consumed_seq = excluded.last_consumed_seq, last_consumed_at = excluded.last_consumed_at,
       total_messages_consumed = excluded.total_messages_consumed, total_batches_consumed = excluded.total_batches_consumed,
       total_messages_delivered = excluded.total_messages_delivered, retry_count = excluded.retry_count, counted_to = excluded.counted_to,
       lease_id = excluded.lease_id, lease_expires_at = excluded.lease_expires_at, lease_acquired_at = excluded.lease_acquired_at,
       batch_from = excluded.batch_from, batch_to = excluded.batch_to, ready_at = excluded.ready_at, evict_at = excluded.evict_at;
truncate incoming_states;
drop table states;
