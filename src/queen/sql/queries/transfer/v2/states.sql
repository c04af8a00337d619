-- Where each group is in each partition, and its lease. $1 former ids, $2 ids, $3 queues, $4 groups: one entry per pair.
-- A message is finished when its status rows all say so; without any, when it is a dead letter, or not after the cursor, or before the
-- group's start. The first unfinished one is where the group goes on; what is finished behind it is told one by one.
with wanted as materialized (
    select n.former, n.id, n.queue_id, n.name, n.pair from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[]) with ordinality
           n(former, id, queue_id, name, pair)
), placed as materialized (
    select m.partition_id, m.id, m.created_at, row_number() over (partition by m.partition_id order by m.created_at, m.id) as place
      from messages m where m.partition_id in (select former from wanted)
), told as (
    select p.id, coalesce(s.consumer_group, '__QUEUE_MODE__') as name, bool_and(s.status in ('completed', 'failed', 'dead_letter')) as finished,
           max(s.retry_count) as retry_count
      from placed p join messages_status s on s.message_id = p.id group by 1, 2
), dead as (
    select distinct d.message_id as id, coalesce(d.consumer_group, '__QUEUE_MODE__') as name from dead_letter_queue d
     where d.partition_id in (select former from wanted)
), fates as materialized (
    select w.pair, p.place, p.created_at, p.id, t.retry_count,
           coalesce(t.finished, d.id is not null or (p.created_at, p.id) <= (c.last_consumed_created_at, c.last_consumed_id)
                                or (c.partition_id is null and p.created_at < s.start_at), false) as finished
      from wanted w
      join placed p on p.partition_id = w.former
      left join partition_cursors c on c.partition_id = w.former and c.consumer_group = w.name
      left join queen_transfer.starts s on s.partition_id = w.former and s.consumer_group = w.name
      left join told t on t.id = p.id and t.name = w.name
      left join dead d on d.id = p.id and d.name = w.name
), front as materialized (
    select pair, min(place) as place from fates where not finished group by pair
), beyond as (
    select f.pair, array_agg(f.created_at order by f.place) as times, array_agg(f.id order by f.place) as ids
      from fates f join front on front.pair = f.pair where f.finished and f.place > front.place group by f.pair
)
select w.id, w.queue_id, w.name, coalesce(u.created_at, 'infinity'), coalesce(u.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'), u.id is not null,
       b.times, b.ids, l.id::text, l.lease_expires_at, coalesce(l.created_at, l.lease_expires_at), f.created_at, f.id, t.created_at, t.id,
       greatest(coalesce(l.batch_size, 0) - coalesce(l.acked_count, 0), 1), coalesce(u.retry_count, 0),
       coalesce(c.total_messages_consumed, 0), coalesce(c.total_batches_consumed, 0), c.last_consumed_at
  from wanted w
  left join front on front.pair = w.pair
  left join fates u on u.pair = front.pair and u.place = front.place
  left join beyond b on b.pair = w.pair
  left join partition_cursors c on c.partition_id = w.former and c.consumer_group = w.name
  left join partition_leases l on l.partition_id = w.former and l.consumer_group = w.name and l.released_at is null
                              and l.lease_expires_at > now()
  left join lateral (
    select array_agg(b.id) as ids
      from (select case jsonb_typeof(e) when 'object' then coalesce(e->>'id', e->>'messageId') else e #>> '{}' end as id
              from jsonb_array_elements(case jsonb_typeof(l.message_batch) when 'array' then l.message_batch else '[]' end) e) b
     where b.id ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$') batch on true
  left join lateral (select m.created_at, m.id from messages m where m.id = any (batch.ids::uuid[]) and m.partition_id = w.former
                      order by m.created_at, m.id limit 1) f on true
  left join lateral (select m.created_at, m.id from messages m where m.id = any (batch.ids::uuid[]) and m.partition_id = w.former
                      order by m.created_at desc, m.id desc limit 1) t on true
