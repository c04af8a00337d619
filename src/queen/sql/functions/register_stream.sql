-- Promises: makes a stream query known by its name. New: fresh. Same hash: source and sink are updated, state stays. Another hash with
--   p_reset: all its state goes and the new hash counts. Another hash without: nothing changes and matches is false.
-- Locks: the query's row.
create or replace function queen.register_stream(p_name text, p_source text, p_sink text, p_hash text, p_reset boolean)
returns table (query_id uuid, config_hash text, fresh boolean, was_reset boolean, matches boolean)
language plpgsql volatile as $$
declare
    v_now timestamptz := queen.clock();
    s     queen.stream_queries;
begin
    insert into queen.stream_queries as q (name, source_queue, sink_queue, config_hash, created_at, updated_at)
    values (p_name, p_source, p_sink, p_hash, v_now, v_now)
        on conflict (name) do nothing
    returning * into s;
    if found then
        return query select s.id, s.config_hash, true, false, true;
        return;
    end if;
    select * into s from queen.stream_queries q where q.name = p_name for update;
    if s.config_hash <> p_hash and not p_reset then
        return query select s.id, s.config_hash, false, false, false;
        return;
    end if;
    if s.config_hash <> p_hash then
        delete from queen.stream_state st where st.query_id = s.id;
    end if;
    update queen.stream_queries q set source_queue = p_source, sink_queue = p_sink, config_hash = p_hash, updated_at = v_now
     where q.id = s.id;
    return query select s.id, p_hash, false, s.config_hash <> p_hash, true;
end $$;
