-- Promises: the name of the table in which rows of this sink wait for queen.ingest; made on first use, shared by nobody else. Its rows
--   survive a crash: a batch that is stored in part is finished with the rows it began with.
-- Locks: the sink's row.
create or replace function queen.open_stage(p_sink text) returns text
language plpgsql volatile as $$
declare
    v_name text;
begin
    insert into queen.sinks as s (name, used_at) values (p_sink, queen.clock())
        on conflict (name) do update set used_at = excluded.used_at
    returning 'spark_stage_' || s.id into v_name;
    if to_regclass('queen.' || v_name) is null then
        execute format($sql$
            create table queen.%I (
                stage          bigint not null,
                place          bigint not null,
                part           bigint not null,
                queue          text not null,
                partition      text not null,
                id             uuid not null,
                payload        jsonb not null,
                is_encrypted   boolean not null,
                transaction_id text check (char_length(transaction_id) between 1 and 255),
                trace_id       uuid,
                parent_id      uuid,
                deliver_at     timestamptz
            ) with (autovacuum_enabled = off)$sql$, v_name);
        execute format('create index on queen.%I (stage, part)', v_name);
    end if;
    return v_name;
end $$;
