-- A page of partitions with their numbers, in the order they were made. $1: of one queue; $2: after this one (keyset).
with page as materialized (
    select p.*, q.name as queue_name from queen.partitions p join queen.queues q on q.id = p.queue_id
     where ($1::text is null or q.name = $1) and ($2::bigint is null or p.id > $2)
     order by p.id limit $3
), cursors as (
    select c.partition_id, sum(c.total_messages_consumed)::bigint as consumed, sum(c.total_batches_consumed)::bigint as batches,
           max(c.last_consumed_at) as last_consumed_at
      from queen.partition_consumers c where c.partition_id in (select id from page) group by c.partition_id
)
select p.id, p.queue_name, p.name, p.created_at, p.last_activity, n.kept, n.waiting, n.processing, n.failed,
       coalesce(d.dead_letters, 0) as dead_letters, coalesce(d.buried, 0) as buried, first.created_at as oldest_at,
       case when n.kept > 0 then p.last_created_at end as newest_at, coalesce(c.consumed, 0) as consumed,
       coalesce(c.batches, 0) as batches, c.last_consumed_at
  from page p
  join queen.count_partitions((select array_agg(distinct queue_id) from page)) n on n.partition_id = p.id
  left join queen.count_dead_letters((select array_agg(distinct queue_id) from page)) d on d.partition_id = p.id
  left join cursors c on c.partition_id = p.id
  left join lateral (select m.created_at from queen.messages m where m.partition_id = p.id and m.seq >= p.first_seq
                      order by m.seq limit 1) first on true
 order by p.id
