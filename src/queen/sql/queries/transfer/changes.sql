-- What the source told of, by partition; at most $1 entries at a time.
select c.partition_id, array_agg(c.id) as ids, min(c.since) filter (where c.kind = 'messages') as added,
       min(c.since) filter (where c.kind = 'removed') as removed_since, max(c.until) filter (where c.kind = 'removed') as removed_until,
       bool_or(c.kind = 'dead letters') as dead_letters,
       bool_or(c.kind = 'consumers') as consumers, bool_or(c.kind = 'traces') as traces,
       coalesce(array_agg(distinct c.consumer_group) filter (where c.consumer_group is not null), '{}') as groups
  from (select * from queen_transfer.changes order by id limit $1) c
 group by c.partition_id
