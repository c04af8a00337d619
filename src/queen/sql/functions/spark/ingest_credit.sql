-- Promises: limited queues among the lanes have room for their rows, which is then theirs until commit or rollback; else QUEUE_FULL with
--   depth, limit and the number asked for.
-- Locks: credit slots of limited queues, queues by id (see queen.take_credit).
create or replace function queen.ingest_credit(p_queues bigint[], p_counts bigint[]) returns void
language plpgsql volatile as $$
declare
    r       record;
    v_depth bigint;
begin
    for r in select q.id, q.name, q.max_queue_size as size, sum(n.n)::bigint as n
               from unnest(p_queues, p_counts) n(id, n) join queen.queues q on q.id = n.id
              where q.max_queue_size > 0 group by 1, 2, 3 order by 1 loop
        v_depth := queen.take_credit(r.id, r.size, r.n);
        if v_depth is not null then
            perform queen.raise_error('QUEUE_FULL',
                format('queue %L is full: %s of %s messages, and %s more are to be written', r.name, v_depth, r.size, r.n),
                jsonb_build_object('queue', r.name, 'depth', v_depth, 'limit', r.size, 'rows', r.n));
        end if;
    end loop;
end $$;
