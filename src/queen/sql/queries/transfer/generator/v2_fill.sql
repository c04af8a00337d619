-- Status rows, cursors, leases, groups and dead letters of v2, and rows that should not be there but are.
-- By queue and group: style 0 has cursors only, 1 status rows only, 2 both.
create temporary table style as
select r.*, (r.number + hashtext(r.queue_id::text) & 1023) % 3 as style from progress r;
create index on style (partition_id);

insert into queen.partition_cursors (partition_id, consumer_group, last_consumed_created_at, last_consumed_id, total_messages_consumed,
                                     total_batches_consumed, last_consumed_at)
select r.partition_id, r.name, m.created_at, m.id, coalesce(m.place, 0), (coalesce(m.place, 0) + 9) / 10, timestamptz '2024-02-01'
  from style r left join placed m on m.partition_id = r.partition_id and m.place = case when r.kind = 1 then 0 else r.finished end
 where r.style <> 1 and r.kind > 0;

-- One in twenty below the cursor is unfinished after all, and one in ten above it is finished already.
insert into queen.messages_status (message_id, consumer_group, status, lease_expires_at, completed_at, failed_at, error_message, retry_count)
select m.id, r.name, s.status, case s.status when 'processing' then now() + interval '1 hour' end,
       case s.status when 'completed' then timestamptz '2024-02-01' end,
       case when s.status in ('failed', 'dead_letter') then timestamptz '2024-02-01' + make_interval(secs => m.place) end,
       case when s.status in ('failed', 'dead_letter') then 'refused: ' || m.place end, (m.place % 4)::integer
  from style r
  join placed m on m.partition_id = r.partition_id
 cross join lateral (select pg_temp.chance(m.id::text, r.number, 200) as dice) d
 cross join lateral (select case
           when m.place <= r.finished then case when d.dice < 2 then 'pending' when d.dice < 4 then 'processing' when d.dice < 10 then 'failed'
                                                when d.dice < 16 then 'dead_letter' else 'completed' end
           when d.dice < 20 then 'completed' when d.dice < 22 then 'dead_letter' when d.dice < 30 then 'pending' end as status) s
 where r.kind > 1 and (r.style = 1 or r.style = 2 and (s.status <> 'completed' or m.place > r.finished)) and s.status is not null;

insert into queen.dead_letter_queue (message_id, partition_id, consumer_group, error_message, retry_count, original_created_at, failed_at)
select m.id, m.partition_id, s.consumer_group, s.error_message, s.retry_count, m.created_at, s.failed_at
  from queen.messages_status s join placed m on m.id = s.message_id where s.status = 'dead_letter';
insert into queen.dead_letter_queue (message_id, partition_id, consumer_group, error_message, retry_count, original_created_at, failed_at)
select m.id, m.partition_id, r.name, 'given up', 3, m.created_at, timestamptz '2024-02-02'
  from style r join placed m on m.partition_id = r.partition_id and m.place % 13 = 4 and m.place <= r.finished
 where r.style = 0 and r.kind > 1;

insert into queen.partition_leases (partition_id, consumer_group, lease_expires_at, message_batch, batch_size, acked_count, created_at, released_at)
select r.partition_id, r.name, now() + case when r.lease = 3 then interval '-1 hour' else interval '1 hour' end,
       case when r.lease < 2 then (select jsonb_agg(x.id order by x.place) from placed x where x.partition_id = r.partition_id
                                      and x.place between r.finished + 1 and r.finished + 3) end,
       3, 0, now() - interval '10 minutes', case when r.lease = 2 then now() end
  from style r where r.kind = 4 and r.finished < r.count;

insert into queen.consumer_groups (queue_id, name, subscription_mode, created_at)
select q.id, 'group-' || g, case when g % 2 = 0 then 'all' else 'new' end,
       (select created_at from queen.messages where transaction_id = 'order-' || w.messages / 2)
  from wanted w, generate_series(2, w.groups) g, queen.queues q;

-- Odd: queue mode written as null; ids used twice and left out; no payload; dead letters whose message is gone; a lease without a cursor.
update queen.messages_status set consumer_group = null from wanted w
 where w.odd and consumer_group = '__QUEUE_MODE__' and pg_temp.chance(message_id::text, 5, 2) = 0;
update queen.messages m set transaction_id = 'again-' || substr(m.transaction_id, 7, 1) from wanted w where w.odd and pg_temp.chance(m.id::text, 6, 20) = 0;
update queen.messages m set transaction_id = null from wanted w where w.odd and pg_temp.chance(m.id::text, 7, 50) = 0;
update queen.messages m set payload = null from wanted w where w.odd and pg_temp.chance(m.id::text, 2, 60) = 0;
delete from queen.messages m using wanted w where w.odd and pg_temp.chance(m.id::text, 1, 40) = 0;
insert into queen.partition_leases (partition_id, consumer_group, lease_expires_at, batch_size, created_at)
select p.id, 'left-over', now() + interval '1 hour', 2, now() from wanted w, queen.partitions p
 where w.odd and pg_temp.chance(p.id::text, 8, 4) = 0;
analyze;
