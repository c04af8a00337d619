-- Where each group is in each partition, and its lease. $1 former ids, $2 ids, $3 queues, $4 groups: one entry per pair.
select w.id, w.queue_id, w.name,
       case when c.partition_id is null then s.start_at - interval '1 microsecond' else c.last_consumed_created_at end,
       case when c.partition_id is null then 'ffffffff-ffff-ffff-ffff-ffffffffffff' else c.last_consumed_id end,
       false, null::timestamptz[], null::uuid[], c.worker_id::text, c.lease_expires_at, coalesce(c.lease_acquired_at, c.lease_expires_at),
       f.created_at, f.id, t.created_at, t.id, greatest(coalesce(c.batch_size, 0) - coalesce(c.acked_count, 0), 1),
       coalesce(c.batch_retry_count, 0), coalesce(c.total_messages_consumed, 0), coalesce(c.total_batches_consumed, 0), c.last_consumed_at
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[]) w(former, id, queue_id, name)
  left join partition_consumers c on c.partition_id = w.former and c.consumer_group = w.name
  left join queen_transfer.starts s on s.partition_id = w.former and s.consumer_group = w.name and c.partition_id is null
  left join lateral (
    select array_agg(b.id) as ids
      from (select case jsonb_typeof(e) when 'object' then coalesce(e->>'id', e->>'messageId') else e #>> '{}' end as id
              from jsonb_array_elements(case jsonb_typeof(c.message_batch) when 'array' then c.message_batch else '[]' end) e) b
     where b.id ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' and c.worker_id is not null) b on true
  left join lateral (select m.created_at, m.id from messages m where m.id = any (b.ids::uuid[]) and m.partition_id = w.former
                      order by m.created_at, m.id limit 1) f on true
  left join lateral (select m.created_at, m.id from messages m where m.id = any (b.ids::uuid[]) and m.partition_id = w.former
                      order by m.created_at desc, m.id desc limit 1) t on true
