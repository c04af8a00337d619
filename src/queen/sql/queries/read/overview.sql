-- Everything at a glance: exact numbers over all queues.
with numbers as (
    select count(*) as partitions, coalesce(sum(c.kept), 0)::bigint as kept, coalesce(sum(c.waiting), 0)::bigint as waiting,
           coalesce(sum(c.processing), 0)::bigint as processing, coalesce(sum(c.failed), 0)::bigint as failed
      from queen.count_partitions() c
), dead as (
    select coalesce(sum(d.dead_letters), 0)::bigint as dead_letters, coalesce(sum(d.buried), 0)::bigint as buried from queen.count_dead_letters() d
), lags as (
    select avg(l.seconds) as time_avg, percentile_cont(0.5) within group (order by l.seconds) as time_median,
           min(l.seconds) as time_min, max(l.seconds) as time_max,
           avg(l.waiting) as offset_avg, percentile_cont(0.5) within group (order by l.waiting) as offset_median,
           min(l.waiting) as offset_min, max(l.waiting) as offset_max
      from (select w.waiting, greatest(extract(epoch from queen.clock() - w.oldest_at), 0)::double precision as seconds
              from queen.waiting_lanes() w) l
), since as (
    select date_trunc('minute', queen.clock() - interval '1 minute') as start
), rates as (
    select coalesce(sum(s.pushed), 0)::bigint as pushed, coalesce(sum(s.acked), 0)::bigint as acked,
           extract(epoch from queen.clock() - (select start from since))::double precision as seconds
      from queen.stats s where s.bucket >= (select start from since)
)
select (select count(*) from queen.queues) as queues,
       (select count(distinct namespace) from queen.queues where namespace <> '') as namespaces,
       (select count(distinct task) from queen.queues where task <> '') as tasks,
       (select last_success from queen.service_leases where service = 'stats') as collected_at,
       n.*, d.*, l.*, r.*
  from numbers n, dead d, lags l, rates r
