-- Promises: per partition of the given queues (null: of all) that has any: dead letters that were not pushed again; and `buried`, the messages
--   among them that are kept and that every group has passed, which are therefore not completed.
-- Locks: nothing.
create or replace function queen.count_dead_letters(p_queues bigint[] default null)
returns table (partition_id bigint, queue_id bigint, dead_letters bigint, buried bigint)
language sql stable
set jit = off as $$
    select d.partition_id, d.queue_id, count(*),
           count(distinct d.seq) filter (where d.seq >= p.first_seq and d.seq <= c.slowest
               and not exists (select from queen.skips s where s.partition_id = d.partition_id and s.consumer_group = '*' and s.seq = d.seq))
      from queen.dead_letter_queue d
      join queen.partitions p on p.id = d.partition_id
     cross join lateral (select min(x.last_consumed_seq) as slowest from queen.partition_consumers x where x.partition_id = p.id) c
     where d.redriven_at is null and (p_queues is null or d.queue_id = any (p_queues))
     group by d.partition_id, d.queue_id
$$;
