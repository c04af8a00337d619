-- A page of queues with their numbers, newest first. $5: after this one (keyset).
with page as materialized (
    select q.* from queen.queues q
     where ($1::text is null or q.namespace = $1) and ($2::text is null or q.task = $2) and ($3::text is null or q.name = $3)
       and ($4::text is null or position(lower($4) in lower(q.name)) > 0) and ($5::bigint is null or q.id < $5)
     order by q.id desc limit $6 offset $7
), numbers as (
    select c.queue_id, count(*) as partitions, sum(c.kept)::bigint as kept, sum(c.waiting)::bigint as waiting,
           sum(c.processing)::bigint as processing, sum(c.failed)::bigint as failed
      from queen.count_partitions((select array_agg(id) from page)) c group by c.queue_id
), dead as (
    select d.queue_id, sum(d.dead_letters)::bigint as dead_letters, sum(d.buried)::bigint as buried
      from queen.count_dead_letters((select array_agg(id) from page)) d group by d.queue_id
), lags as (
    select w.queue_id, min(w.oldest_at) as oldest_at from queen.waiting_lanes((select array_agg(id) from page)) w group by w.queue_id
), since as (
    select date_trunc('minute', queen.clock() - interval '1 minute') as start
), rates as (
    select s.queue_id, sum(s.pushed)::bigint as pushed, sum(s.acked)::bigint as acked from queen.stats s
     where s.bucket >= (select start from since) and s.queue_id in (select id from page) group by s.queue_id
)
select p.*, coalesce(n.partitions, 0) as partitions, coalesce(n.kept, 0) as kept, coalesce(n.waiting, 0) as waiting,
       coalesce(n.processing, 0) as processing, coalesce(n.failed, 0) as failed, coalesce(d.dead_letters, 0) as dead_letters,
       coalesce(d.buried, 0) as buried,
       case when l.oldest_at is not null then greatest(extract(epoch from queen.clock() - l.oldest_at), 0)::double precision end as lag_seconds,
       coalesce(r.pushed, 0) as pushed, coalesce(r.acked, 0) as acked,
       extract(epoch from queen.clock() - (select start from since))::double precision as seconds
  from page p
  left join numbers n on n.queue_id = p.id
  left join dead d on d.queue_id = p.id
  left join lags l on l.queue_id = p.id
  left join rates r on r.queue_id = p.id
 order by p.id desc
