-- What there is to compare of partitions of v3, each fact as (partition, kind, name, value). $1 former ids, $2 ids; $3 to $6 as the pairs in states;
-- $7 whether with the messages themselves.
with wanted as materialized (
    select * from unnest($1::uuid[], $2::bigint[]) w(former, id)
), placed as (
    select w.id, row_number() over (partition by m.partition_id order by m.created_at, m.id) as place, m.id as message,
           coalesce(m.transaction_id, m.id::text) as transaction_id, coalesce(m.is_encrypted, false) as sealed, coalesce(m.payload, 'null')::text as payload
      from wanted w join messages m on m.partition_id = w.former
), pairs as materialized (
    select w.former, w.id, w.name, c.worker_id, c.lease_expires_at, c.message_batch,
           greatest(coalesce(c.batch_size, 0) - coalesce(c.acked_count, 0), 1) as batch_count,
           coalesce(case when c.partition_id is null then s.start_at - interval '1 microsecond' else c.last_consumed_created_at end, '-infinity') as at,
           case when c.partition_id is null then 'ffffffff-ffff-ffff-ffff-ffffffffffff' else c.last_consumed_id end as last
      from unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) w(former, id, queue_id, name)
      left join partition_consumers c on c.partition_id = w.former and c.consumer_group = w.name
      left join queen_transfer.starts s on s.partition_id = w.former and s.consumer_group = w.name and c.partition_id is null
)
select p.id, 'messages' as kind, '' as name,
       count(*) || ' messages, checksum ' || sum(('x' || left(md5(concat_ws('|', p.place, p.message, p.transaction_id, p.sealed, p.payload)), 15))::bit(60)::bigint) as value
  from placed p where $7::boolean group by p.id
union all
select w.id, 'cursor', w.name, concat_ws(', ', 'next ' || n.id, c.count || ' waiting')
  from pairs w
 cross join lateral (select count(*) as count from messages m where m.partition_id = w.former and (m.created_at, m.id) > (w.at, w.last)) c
  left join lateral (select m.id from messages m where m.partition_id = w.former and (m.created_at, m.id) > (w.at, w.last)
                      order by m.created_at, m.id limit 1) n on true
union all
select w.id, 'lease', w.name,
       concat_ws(', ', case when w.worker_id ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then lower(w.worker_id) else md5(w.worker_id)::uuid::text end,
                 'until ' || extract(epoch from w.lease_expires_at)::numeric(20, 3), 'from ' || f.id, 'to ' || l.id)
  from pairs w
 cross join lateral (
    select coalesce(array_agg(coalesce(e->>'id', e->>'messageId', e #>> '{}')), '{}') as ids
      from jsonb_array_elements(case jsonb_typeof(w.message_batch) when 'array' then w.message_batch else '[]' end) e) b
 cross join lateral (
    select exists (select from messages m where m.partition_id = w.former and m.id::text = any (b.ids)) as found) x
 cross join lateral (
    select m.id from (select m.id, m.created_at from messages m
                       where m.partition_id = w.former and (m.created_at, m.id) > (w.at, w.last) and (not x.found or m.id::text = any (b.ids))
                       order by m.created_at, m.id limit case when x.found then null else w.batch_count end) m
     order by m.created_at desc, m.id desc limit 1) l
 cross join lateral (select m.id from messages m
                      where m.partition_id = w.former and (m.created_at, m.id) > (w.at, w.last) and (not x.found or m.id::text = any (b.ids))
                      order by m.created_at, m.id limit 1) f
 where w.worker_id is not null and w.lease_expires_at is not null
union all
select w.id, 'dead letter', d.message_id || ' of ' || coalesce(d.consumer_group, '__QUEUE_MODE__'),
       count(*) || ' times, ' || md5(string_agg(concat_ws('|', coalesce(d.error_message, ''), coalesce(d.retry_count, 0), extract(epoch from d.failed_at)::numeric(20, 3),
                                                          coalesce(m.payload::text, 'null')), ',' order by d.failed_at, d.error_message))
  from wanted w join dead_letter_queue d on d.partition_id = w.former left join messages m on m.id = d.message_id
 group by 1, 3
union all
select w.id, 'traces', '', count(*) || ' traces, checksum ' || sum(('x' || left(md5(concat_ws('|', t.message_id, t.event_type, t.data,
       (select string_agg(n.trace_name, ',' order by n.trace_name) from message_trace_names n where n.trace_id = t.id))), 15))::bit(60)::bigint)
  from wanted w join message_traces t on t.partition_id = w.former where t.message_id is not null group by 1
