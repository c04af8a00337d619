-- What there is to compare of partitions of v2, each fact as (partition, kind, name, value). $1 former ids, $2 ids; $3 to $6 as the pairs in states;
-- $7 whether with the messages themselves.
with wanted as materialized (
    select * from unnest($1::uuid[], $2::bigint[]) w(former, id)
), placed as materialized (
    select w.former, w.id, row_number() over (partition by m.partition_id order by m.created_at, m.id) as place, m.id as message, m.created_at,
           case when m.transaction_id is null then m.id::text
                when row_number() over (partition by m.partition_id, m.transaction_id order by m.created_at, m.id) > 1
                then m.transaction_id || '#' || m.id else m.transaction_id end as transaction_id,
           coalesce(m.is_encrypted, false) as sealed, coalesce(m.payload, 'null')::text as payload
      from wanted w join messages m on m.partition_id = w.former
), pairs as (
    select * from unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::text[]) w(former, id, queue_id, name)
), statuses as (
    select p.message, coalesce(s.consumer_group, '__QUEUE_MODE__') as name, bool_or(s.status in ('pending', 'processing')) as open
      from placed p join messages_status s on s.message_id = p.message group by 1, 2
), waiting as materialized (
    select w.id, w.former, w.name, p.place, p.message, p.created_at
      from pairs w
      join placed p on p.former = w.former
      left join statuses s on s.message = p.message and s.name = w.name
      left join partition_cursors c on c.partition_id = w.former and c.consumer_group = w.name
      left join queen_transfer.starts t on t.partition_id = w.former and t.consumer_group = w.name
     where case when s.message is not null then s.open
                else not exists (select from dead_letter_queue d where d.message_id = p.message and coalesce(d.consumer_group, '__QUEUE_MODE__') = w.name)
                     and not coalesce((p.created_at, p.message) <= (c.last_consumed_created_at, c.last_consumed_id), false)
                     and not (c.partition_id is null and coalesce(p.created_at < t.start_at, false)) end
), fronts as materialized (
    select w.id, w.name, count(*) as count, min(w.place) as place from waiting w group by 1, 2
)
select p.id, 'messages' as kind, '' as name,
       count(*) || ' messages, checksum ' || sum(('x' || left(md5(concat_ws('|', p.place, p.message, p.transaction_id, p.sealed, p.payload)), 15))::bit(60)::bigint) as value
  from placed p where $7::boolean group by p.id
union all
select w.id, 'cursor', w.name, concat_ws(', ', 'next ' || n.message, coalesce(f.count, 0) || ' waiting',
       'finished behind it ' || (select md5(string_agg(p.message::text, ',' order by p.place)) from placed p
                                  where p.former = w.former and p.place > f.place
                                    and not exists (select from waiting x where x.id = w.id and x.name = w.name and x.place = p.place)))
  from pairs w
  left join fronts f on f.id = w.id and f.name = w.name
  left join placed n on n.id = w.id and n.place = f.place
union all
select w.id, 'lease', w.name,
       concat_ws(', ', l.id::text, 'until ' || extract(epoch from l.lease_expires_at)::numeric(20, 3), 'from ' || a.message, 'to ' || z.message)
  from pairs w
  join partition_leases l on l.partition_id = w.former and l.consumer_group = w.name and l.released_at is null and l.lease_expires_at > now()
  join fronts f on f.id = w.id and f.name = w.name
 cross join lateral (
    select coalesce(array_agg(coalesce(e->>'id', e->>'messageId', e #>> '{}')), '{}') as ids
      from jsonb_array_elements(case jsonb_typeof(l.message_batch) when 'array' then l.message_batch else '[]' end) e) b
 cross join lateral (select min(p.place) as first, max(p.place) as last from placed p where p.id = w.id and p.message::text = any (b.ids)) r
  join placed a on a.id = w.id and a.place = greatest(f.place, coalesce(r.first, f.place))
  join placed z on z.id = w.id and z.place = least(coalesce(r.last, f.place - 1 + greatest(coalesce(l.batch_size, 0) - coalesce(l.acked_count, 0), 1)),
                                                   (select max(p.place) from placed p where p.id = w.id))
 where coalesce(r.last, f.place) >= f.place
union all
select w.id, 'dead letter', d.message_id || ' of ' || d.name,
       count(*) || ' times, ' || md5(string_agg(concat_ws('|', d.error_message, d.retry_count, extract(epoch from d.failed_at)::numeric(20, 3), coalesce(p.payload, 'null')),
                                                ',' order by d.failed_at, d.error_message))
  from wanted w
  join (select x.partition_id, x.message_id, coalesce(x.consumer_group, '__QUEUE_MODE__') as name, coalesce(x.error_message, '') as error_message,
               coalesce(x.retry_count, 0) as retry_count, x.failed_at from dead_letter_queue x
        union all
        select m.partition_id, s.message_id, coalesce(s.consumer_group, '__QUEUE_MODE__'), coalesce(max(s.error_message), ''), coalesce(max(s.retry_count), 0),
               coalesce(max(s.failed_at), max(s.completed_at), m.created_at)
          from messages_status s join messages m on m.id = s.message_id
         where s.status in ('failed', 'dead_letter') and m.partition_id = any ($1::uuid[])
           and not exists (select from dead_letter_queue x where x.message_id = s.message_id
                              and coalesce(x.consumer_group, '__QUEUE_MODE__') = coalesce(s.consumer_group, '__QUEUE_MODE__'))
         group by 1, 2, 3, m.created_at) d on d.partition_id = w.former
  left join (select x.id, coalesce(x.payload, 'null')::text as payload from messages x) p on p.id = d.message_id
 group by 1, 3
