-- The questions operators ask, as views.

create view queen.queue_depths as
select q.name as queue_name, d.depth as current_depth, q.max_queue_size,
       case when q.max_queue_size > 0 then greatest(q.max_queue_size - d.depth, 0) end as remaining_capacity
  from queen.queues q
 cross join lateral (
    select coalesce(sum(w.waiting - case when p.has_skips then (
               select count(distinct s.seq) from queen.skips s
                where s.partition_id = p.id and s.consumer_group = '*' and s.seq >= p.next_seq - w.waiting) else 0 end), 0)::bigint as depth
      from queen.partitions p
     cross join lateral (
        select greatest(p.next_seq - greatest(coalesce(min(c.last_consumed_seq), 0) + 1, p.first_seq), 0) as waiting
          from queen.partition_consumers c where c.partition_id = p.id
     ) w
     where p.queue_id = q.id
 ) d;

create view queen.active_leases as
select q.name as queue_name, p.name as partition_name, c.consumer_group, c.lease_expires_at,
       c.batch_to - greatest(c.batch_from, c.last_consumed_seq + 1) + 1 as message_count,
       extract(epoch from c.lease_expires_at - clock_timestamp()) as seconds_remaining
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = c.queue_id
 where c.lease_id is not null and c.lease_expires_at > clock_timestamp();

create view queen.stuck_partitions as
select q.name as queue_name, p.name as partition_name, c.consumer_group, c.lease_expires_at,
       c.batch_to - greatest(c.batch_from, c.last_consumed_seq + 1) + 1 as message_count,
       extract(epoch from c.lease_expires_at - clock_timestamp()) as seconds_remaining,
       c.lease_acquired_at as lease_started_at,
       extract(epoch from clock_timestamp() - c.lease_acquired_at) as lease_held_seconds
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = c.queue_id
 where c.lease_id is not null and c.lease_expires_at < clock_timestamp() + interval '30 seconds';

create view queen.partition_utilization as
select q.name as queue_name, count(distinct p.id) as total_partitions,
       count(distinct p.id) filter (where c.lease_id is not null and c.lease_expires_at > clock_timestamp()) as leased_partitions,
       round(100.0 * count(distinct p.id) filter (where c.lease_id is not null and c.lease_expires_at > clock_timestamp())
             / nullif(count(distinct p.id), 0), 2) as utilization_pct
  from queen.queues q
  left join queen.partitions p on p.queue_id = q.id
  left join queen.partition_consumers c on c.partition_id = p.id
 group by q.name;

create view queen.cursor_progress as
select q.name as queue_name, p.name as partition_name, c.consumer_group, c.total_messages_consumed, c.total_batches_consumed,
       c.last_consumed_at
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = c.queue_id;

create view queen.dead_letters_by_group as
select q.name as queue_name, d.consumer_group, count(*) as dead_letters, min(d.failed_at) as first_failed_at,
       max(d.failed_at) as last_failed_at, count(*) filter (where d.redriven_at is not null) as redriven
  from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id
 group by q.name, d.consumer_group;
