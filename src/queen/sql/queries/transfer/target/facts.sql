-- The same facts of the partitions $1 of the target; $2 whether with the messages themselves.
with wanted as materialized (
    select p.* from partitions p where p.id = any ($1::bigint[])
), rows as (
    select w.id, w.first_seq, w.next_seq, w.has_skips, c.consumer_group as name, greatest(c.last_consumed_seq, w.first_seq - 1) as cursor,
           c.lease_id, c.lease_expires_at, c.batch_from, c.batch_to
      from wanted w join partition_consumers c on c.partition_id = w.id
)
select w.id, 'messages' as kind, '' as name,
       count(*) || ' messages, checksum '
       || sum(('x' || left(md5(concat_ws('|', m.seq - w.first_seq + 1, m.id, coalesce(m.transaction_id, m.id::text), m.is_encrypted, m.payload::text)), 15))::bit(60)::bigint) as value
  from wanted w join messages m on m.partition_id = w.id where $2::boolean group by w.id
union all
select r.id, 'cursor', r.name, concat_ws(', ', 'next ' || n.id,
       greatest(r.next_seq - r.cursor - 1, 0) - coalesce((select count(*) from skips s where s.partition_id = r.id and s.consumer_group = r.name
                                                              and s.seq > r.cursor and r.has_skips), 0) || ' waiting',
       'finished behind it ' || (select md5(string_agg(m.id::text, ',' order by m.seq)) from skips s join messages m on m.partition_id = s.partition_id and m.seq = s.seq
                                  where s.partition_id = r.id and s.consumer_group = r.name and s.seq > n.seq))
  from rows r
  left join lateral (select m.id, m.seq from messages m where m.partition_id = r.id and m.seq > r.cursor
                        and not exists (select from skips s where s.partition_id = r.id and s.consumer_group in ('*', r.name) and s.seq = m.seq)
                      order by m.seq limit 1) n on true
union all
select r.id, 'lease', r.name, concat_ws(', ', r.lease_id::text, 'until ' || extract(epoch from r.lease_expires_at)::numeric(20, 3), 'from ' || a.id, 'to ' || z.id)
  from rows r
  left join messages a on a.partition_id = r.id and a.seq = r.batch_from
  left join messages z on z.partition_id = r.id and z.seq = r.batch_to
 where r.lease_id is not null
union all
select w.id, 'dead letter', d.message_id || ' of ' || d.consumer_group,
       count(*) || ' times, ' || md5(string_agg(concat_ws('|', d.error_message, d.retry_count, extract(epoch from d.failed_at)::numeric(20, 3), d.payload::text),
                                                ',' order by d.failed_at, d.error_message))
  from wanted w join dead_letter_queue d on d.partition_id = w.id group by 1, 3
union all
select w.id, 'traces', '', count(*) || ' traces, checksum ' || sum(('x' || left(md5(concat_ws('|', t.message_id, t.event_type, t.data,
       (select string_agg(n.trace_name, ',' order by n.trace_name) from trace_names n where n.trace_id = t.id))), 15))::bit(60)::bigint)
  from wanted w join traces t on t.partition_id = w.id group by 1
