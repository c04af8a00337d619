-- The partitions of a queue in at most $3 cells, the longest waiting first: of one group ($2), or of the slowest in each; $4 are left
-- out and $5 taken, in that order.
with t as materialized (select queen.clock() as now), lanes as (
    select p.id, p.name, d.waiting, case when d.waiting > 0 then m.created_at end as oldest_at, d.leased, d.failing
      from queen.partitions p
     cross join lateral (
         select coalesce(max(queen.lane_depth(p, c.consumer_group, c.last_consumed_seq)),
                         case when $2::text is null then queen.lane_depth(p, null, 0) else 0 end) as waiting,
                min(c.last_consumed_seq) as cursor, coalesce(bool_or(c.lease_id is not null and c.lease_expires_at > t.now), false) as leased,
                coalesce(bool_or(c.retry_count > 0), false) as failing
           from t left join queen.partition_consumers c on c.partition_id = p.id and ($2::text is null or c.consumer_group = $2)) d
      left join lateral (select x.created_at from queen.messages x
                          where d.waiting > 0 and x.partition_id = p.id and x.seq >= greatest(d.cursor + 1, p.first_seq)
                          order by x.seq limit 1) m on true
     where p.queue_id = $1
     order by oldest_at nulls last, p.id
    offset $4 limit $5
), placed as (
    select l.*, ntile($3::integer) over (order by l.oldest_at nulls last, l.id) as cell from lanes l
)
select cell, count(*) as partitions, sum(waiting)::bigint as waiting, min(oldest_at) as oldest_at, count(*) filter (where leased) as leased,
       count(*) filter (where failing and waiting > 0) as failing, (array_agg(name order by oldest_at nulls last, id))[1] as name,
       (array_agg(id order by oldest_at nulls last, id))[1] as partition_id
  from placed group by cell order by cell
