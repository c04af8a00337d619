-- A broker's database at any size, by statements over whole sets; a blank line ends one.
insert into queen.queues (name, namespace, created_at)
select name, 'scale', now() - interval '40 days'
  from unnest(array['scale.events', 'scale.wide'] || array(select 'scale.small-' || n from generate_series(1, %(queues)s) n)) name

insert into queen.partitions (queue_id, name, first_seq, next_seq, last_created_at, created_at, oldest_at, idle_since)
select q.id, 'customer-' || lpad(n::text, 6, '0'), 1, 1 + s.each, now() - n * interval '1 second', now() - interval '40 days',
       now() - n * interval '1 second' - s.each * interval '1 minute', null
  from queen.queues q
 cross join lateral (select case q.name when 'scale.events' then %(partitions)s when 'scale.wide' then %(wide)s else 3 end as count,
                            case q.name when 'scale.events' then %(messages)s / %(partitions)s else 1 end as each) s
 cross join lateral generate_series(1, s.count) n
 where q.namespace = 'scale'

insert into queen.messages (partition_id, seq, pos, id, trace_id, created_at, transaction_id, producer_sub, payload)
select p.id, s, nextval('queen.message_pos'), gen_random_uuid(),
       case when s = 1 and p.name < 'customer-000012' then %(trace)s::uuid when s %% 10 = 0 then gen_random_uuid() end,
       p.last_created_at - (p.next_seq - 1 - s) * interval '1 minute', 'order-' || p.id || '-' || s, 'shop',
       jsonb_build_object('order', p.id * 1000 + s, 'customer', p.name, 'total', s * 1.5, 'note', repeat('x', 60))
  from queen.partitions p join queen.queues q on q.id = p.queue_id cross join lateral generate_series(1, p.next_seq - 1) s
 where q.namespace = 'scale'

with made as (
    insert into queen.subscriptions (queue_id, consumer_group, mode, start_at, created_at, filled, settled)
    select q.id, 'group-' || lpad(g::text, 2, '0'), 'all', '-infinity', now() - interval '40 days', true, true
      from queen.queues q cross join lateral generate_series(1, case q.name when 'scale.events' then %(groups)s else 1 end) g
     where q.namespace = 'scale'
    returning queue_id, consumer_group
)
insert into queen.partition_consumers (partition_id, queue_id, consumer_group, last_consumed_seq, last_consumed_at, total_messages_consumed,
                                       total_messages_delivered, ready_at, retry_count, counted_to, lease_id, lease_expires_at,
                                       lease_acquired_at, batch_from, batch_to)
select p.id, p.queue_id, m.consumer_group, c.done, now() - interval '1 hour', c.done, c.done, case when c.done < p.next_seq - 1 then now() end,
       case when c.failing then 3 else 0 end, case when c.failing then c.done + 1 else 0 end,
       case when c.leased then gen_random_uuid() end, case when c.leased then now() + interval '2 hours' end,
       case when c.leased then now() - interval '10 minutes' end, case when c.leased then c.done + 1 end, case when c.leased then c.done + 1 end
  from made m
  join queen.partitions p on p.queue_id = m.queue_id
 cross join lateral (select case when (p.id + hashtext(m.consumer_group)::bigint) %% 3 = 0 then (p.next_seq - 1) / 2
                                 else p.next_seq - 1 end as done) d
 cross join lateral (select d.done, d.done < p.next_seq - 1 and p.id %% 97 = 0 as failing, d.done < p.next_seq - 1 and p.id %% 89 = 0 as leased) c

insert into queen.stats (queue_id, bucket, pushed, popped, acked, failed, lag, max_lag_ms)
select q.id, date_trunc('minute', now()) - n * interval '1 minute', 60 + n %% 40, 60, 58, n %% 3, 1000 + n %% 500, 30000 + n %% 9000
  from queen.queues q cross join generate_series(0, 1440 * %(days)s) n
 where q.namespace = 'scale'

insert into queen.dead_letter_queue (queue_id, partition_id, consumer_group, seq, message_id, transaction_id, payload, is_encrypted,
                                     created_at, error_message, error_kind, failed_at)
select p.queue_id, p.id, 'group-01', m.seq, m.id, m.transaction_id, m.payload, false, m.created_at,
       (array['GatewayTimeout: no answer from 10.0.0.', 'CardDeclined: card ending ', 'ValueError: amount '])[1 + m.pos %% 3] || m.pos,
       queen.normalise_error((array['GatewayTimeout: no answer from 10.0.0.', 'CardDeclined: card ending ', 'ValueError: amount '])[1 + m.pos %% 3] || m.pos),
       now() - (m.pos %% 5000) * interval '1 minute'
  from (select x.* from queen.messages x where x.seq = 2 limit %(dead)s) m join queen.partitions p on p.id = m.partition_id

insert into queen.audit (at, subject, act, queue, target, text)
select now() - n * interval '10 minutes', 'ada', 'pause', 'scale.small-' || 1 + n %% %(queues)s, null, 'paused ' || n
  from generate_series(1, 20000) n

with made as (
    insert into queen_durable.instances (instance, name, version, current_execution_id, created_at, updated_at)
    select 'order ' || n, 'checkout', '1.0.0', 1, 1e12::bigint + n * 1000, 1e12::bigint + n * 1000 from generate_series(1, %(workflows)s) n
    returning instance, created_at, id
), run as (
    insert into queen_durable.executions (instance, execution_id, status, output, started_at, completed_at)
    select instance, 1, case when id %% 500 = 0 then 'Parked' when id %% 7 = 0 then 'Failed' when id %% 3 = 0 then 'Running' else 'Completed' end,
           case when id %% 500 = 0 then '"the code does not fit"' when id %% 7 = 0 then '{"message": "no"}' else '"done"' end,
           created_at, case when id %% 3 > 0 then created_at + 5000 end
      from made
    returning instance
)
select count(*) from run

insert into queen_durable.history (instance, execution_id, event_id, kind, data)
select i.instance, 1, e.id, e.kind,
       (jsonb_build_object('kind', e.kind, 'event_id', e.id, 'instance', i.instance, 'execution_id', 1, 'timestamp_ms', i.created_at + e.id * 700) || e.rest)::text
  from queen_durable.instances i
 cross join (values (1, 'OrchestrationStarted', '{"name": "checkout", "orchestration_version": "1.0.0", "input": "[17]"}'::jsonb),
                    (2, 'ActivityScheduled', '{"name": "charge", "input": "[17]"}'),
                    (3, 'ActivityCompleted', '{"source_event_id": 2, "result": "1"}'),
                    (4, 'ActivityScheduled', '{"name": "ship", "input": "[17]"}'),
                    (5, 'ActivityCompleted', '{"source_event_id": 4, "result": "1"}')) e (id, kind, rest)
