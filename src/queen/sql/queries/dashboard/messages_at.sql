-- Messages by their places, newest first, as a list shows them.
select b.*
  from unnest($1::bigint[], $2::bigint[]) w(partition_id, seq)
  join queen.partitions p on p.id = w.partition_id
  join queen.queues q on q.id = p.queue_id
  join queen.messages m on m.partition_id = w.partition_id and m.seq = w.seq
 cross join lateral (
     select m.partition_id, m.seq, m.id as message_id, coalesce(m.transaction_id, m.id::text) as transaction_id, m.trace_id, m.producer_sub,
            m.created_at, q.name as queue_name, p.name as partition_name, q.namespace, q.task, q.priority,
            case when exists (select from queen.dead_letter_queue d where d.partition_id = m.partition_id and d.seq = m.seq and d.redriven_at is null)
                     then 'dead_letter'
                 when coalesce((select min(c.last_consumed_seq) from queen.partition_consumers c where c.partition_id = p.id), 0) >= m.seq then 'completed'
                 else 'pending' end as status,
            null::text as queue_status, 0::bigint as consumed_by, 0::bigint as total_groups, null::timestamptz as lease_expires_at) b
 order by b.created_at desc, b.partition_id desc, b.seq desc
