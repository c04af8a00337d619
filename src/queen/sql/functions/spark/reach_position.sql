-- Promises: a position in (p_from, p_to] such that at most p_rows messages of the queues lie in [p_from, it). As far as it can be found
--   cheaply: a range of p_rows positions holds at most p_rows messages, and only where a sample says that most positions belong to
--   other queues are messages counted, at most 50 ranges ahead.
-- Locks: nothing.
create or replace function queen.reach_position(p_queues bigint[], p_from bigint, p_to bigint, p_rows bigint) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    v_step  bigint := greatest((p_to - p_from) / 200, 1);
    v_hits  bigint;
    v_total bigint := 0;
    v_found bigint;
    v_end   bigint := p_from;
    v_next  bigint;
begin
    if p_to - p_from <= p_rows then
        return p_to;
    end if;
    select count(*) into v_hits
      from generate_series(p_from, p_to - 1, v_step) s(pos)
      join queen.messages m on m.pos = s.pos
      join queen.partitions p on p.id = m.partition_id
     where p.queue_id = any (p_queues);
    if v_hits >= 100 then
        return p_from + p_rows;
    end if;
    for i in 1 .. 50 loop
        v_next := least(v_end + p_rows, p_to);
        v_found := queen.count_messages(p_queues, v_end, v_next, p_rows - v_total + 1);
        exit when v_total + v_found > p_rows;
        v_total := v_total + v_found;
        v_end := v_next;
        exit when v_end = p_to;
    end loop;
    return greatest(v_end, p_from + p_rows);
end $$;
