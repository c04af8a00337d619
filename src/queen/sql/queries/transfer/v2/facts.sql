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
), dead as (
    select distinct d.message_id as message, coalesce(d.consumer_group, '__QUEUE_MODE__') as name
      from dead_letter_queue d where d.partition_id = any ($1::uuid[])
), fates as materialized (
    select w.id, w.name, p.place, p.message,
           case when s.message is not null then s.open
                else d.message is null and not coalesce((p.created_at, p.message) <= (c.last_consumed_created_at, c.last_consumed_id), false)
                     and not (c.partition_id is null and coalesce(p.created_at < t.start_at, false)) end as waits
      from pairs w
      join placed p on p.former = w.former
      left join statuses s on s.message = p.message and s.name = w.name
      left join dead d on d.message = p.message and d.name = w.name
      left join partition_cursors c on c.partition_id = w.former and c.consumer_group = w.name
      left join queen_transfer.starts t on t.partition_id = w.former and t.consumer_group = w.name
), fronts as materialized (
    select f.id, f.name, count(*) filter (where f.waits) as count, min(f.place) filter (where f.waits) as place, max(f.place) as last
      from fates f group by 1, 2
), beyond as (
    select f.id, f.name, md5(string_agg(f.message::text, ',' order by f.place)) as finished
      from fates f join fronts r on r.id = f.id and r.name = f.name where not f.waits and f.place > r.place group by 1, 2
), leases as materialized (
    select w.id, w.name, l.id as lease, l.lease_expires_at, l.message_batch,
           greatest(coalesce(l.batch_size, 0) - coalesce(l.acked_count, 0), 1) as batch_count
      from pairs w
      join partition_leases l on l.partition_id = w.former and l.consumer_group = w.name and l.released_at is null and l.lease_expires_at > now()
), ranges as (
    select l.id, l.name, min(p.place) as first, max(p.place) as last
      from leases l
     cross join lateral jsonb_array_elements(case jsonb_typeof(l.message_batch) when 'array' then l.message_batch else '[]' end) e
      join placed p on p.id = l.id and p.message::text = coalesce(e->>'id', e->>'messageId', e #>> '{}')
     group by 1, 2
)
select p.id, 'messages' as kind, '' as name,
       count(*) || ' messages, checksum ' || sum(('x' || left(md5(concat_ws('|', p.place, p.message, p.transaction_id, p.sealed, p.payload)), 15))::bit(60)::bigint) as value
  from placed p where $7::boolean group by p.id
union all
select w.id, 'cursor', w.name, concat_ws(', ', 'next ' || n.message, coalesce(r.count, 0) || ' waiting', 'finished behind it ' || b.finished)
  from pairs w
  left join fronts r on r.id = w.id and r.name = w.name
  left join placed n on n.id = r.id and n.place = r.place
  left join beyond b on b.id = w.id and b.name = w.name
union all
select l.id, 'lease', l.name,
       concat_ws(', ', l.lease::text, 'until ' || extract(epoch from l.lease_expires_at)::numeric(20, 3), 'from ' || a.message, 'to ' || z.message)
  from leases l
  join fronts r on r.id = l.id and r.name = l.name and r.place is not null
  left join ranges b on b.id = l.id and b.name = l.name
  join placed a on a.id = l.id and a.place = greatest(r.place, coalesce(b.first, r.place))
  join placed z on z.id = l.id and z.place = least(coalesce(b.last, r.place - 1 + l.batch_count), r.last)
 where coalesce(b.last, r.place) >= r.place
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
