-- Cursors, leases, subscriptions, dead letters and traces of v3, and rows that should not be there but are.
update queen.messages set producer_sub = 'user-' || (created_at::text) where transaction_id like '%7';

insert into queen.partition_consumers (
    partition_id, consumer_group, last_consumed_id, last_consumed_created_at, total_messages_consumed, total_batches_consumed,
    last_consumed_at, lease_expires_at, lease_acquired_at, message_batch, batch_size, acked_count, worker_id, batch_retry_count)
select r.partition_id, r.name, coalesce(m.id, '00000000-0000-0000-0000-000000000000'), m.created_at, coalesce(m.place, 0),
       (coalesce(m.place, 0) + 9) / 10, case when m.id is not null then timestamptz '2024-02-01' end,
       case when l.held then now() + case when r.lease = 3 then interval '-1 hour' else interval '1 hour' end end,
       case when l.held then now() - interval '10 minutes' end,
       case when l.held and r.lease = 0 then (select jsonb_agg(x.id order by x.place) from placed x where x.partition_id = r.partition_id
                                                 and x.place between coalesce(m.place, 0) + 1 and coalesce(m.place, 0) + 3)
            when l.held and r.lease < 3 then (select jsonb_agg(jsonb_build_object('id', x.id, 'transactionId', x.id) order by x.place)
                                                from placed x where x.partition_id = r.partition_id
                                                 and x.place between coalesce(m.place, 0) + 1 and coalesce(m.place, 0) + 3) end,
       case when l.held then 3 else 0 end, 0, case when l.held then pg_temp.made('lease' || r.name || w.seed, hashtext(r.partition_id::text))::text end,
       case when l.held then r.lease else 0 end
  from wanted w
 cross join progress r
 cross join lateral (select r.kind = 4 and r.finished < r.count as held) l
  left join placed m on m.partition_id = r.partition_id and m.place = case when r.kind = 1 then 0 else r.finished end
 where r.kind > 0;

insert into queen.consumer_groups_metadata (consumer_group, queue_name, subscription_mode, subscription_timestamp)
select 'group-' || g, q.name, case g % 3 when 0 then 'all' when 1 then 'new' else 'timestamp' end,
       case g % 3 when 0 then null else (select created_at from queen.messages where transaction_id = 'order-' || w.messages / 2) end
  from wanted w, generate_series(2, w.groups) g, queen.queues q;

insert into queen.consumer_groups_metadata (consumer_group, namespace, subscription_mode, subscription_timestamp)
select 'watchers', 'shop', 'new', timestamptz '2024-01-03' + make_interval(secs => w.messages / 600.0) from wanted w where w.odd;

insert into queen.dead_letter_queue (message_id, partition_id, consumer_group, error_message, retry_count, original_created_at, failed_at)
select m.id, m.partition_id, r.name, 'refused: ' || m.place, (m.place % 4)::integer, m.created_at, timestamptz '2024-02-01' + make_interval(secs => m.place)
  from progress r
  join placed m on m.partition_id = r.partition_id and m.place <= r.finished and r.kind > 1 and m.place % 11 = r.number % 11;

insert into queen.message_traces (id, message_id, partition_id, transaction_id, consumer_group, event_type, data, created_at)
select pg_temp.made(w.seed || 'event', row_number() over (order by m.partition_id, m.place)), m.id, m.partition_id, x.transaction_id, 'group-2', 'step',
       jsonb_build_object('place', m.place), m.created_at + interval '1 second'
  from wanted w, placed m join queen.messages x on x.id = m.id where m.place % 20 = 3;
insert into queen.message_trace_names (trace_id, trace_name)
select id, 'order ' || transaction_id from queen.message_traces;

-- Odd: holes, also where cursors stand; no payload at all; a lease whose messages are gone; one without a batch; a token that is no UUID.
delete from queen.messages m using wanted w where w.odd and pg_temp.chance(m.id::text, 1, 40) = 0;
update queen.messages m set payload = null from wanted w where w.odd and pg_temp.chance(m.id::text, 2, 60) = 0;
update queen.partition_consumers c set message_batch = null, batch_size = 2 from wanted w
 where w.odd and c.worker_id is not null and pg_temp.chance(c.partition_id::text, 3, 5) = 0;
update queen.partition_consumers c set worker_id = 'worker ' || c.worker_id from wanted w
 where w.odd and c.worker_id is not null and pg_temp.chance(c.partition_id::text, 4, 7) = 0;
analyze;
