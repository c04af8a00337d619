-- Promises: everything queen.ingest needs for a batch: all staged rows are there (else STAGE_LOST: the server went down meanwhile, or
--   another run of the sink swept them), queues and partitions exist, old claims are forgotten. Returns where the rows are (source,
--   stages), in how many parts they are stored (total) and which of them are not stored yet (parts; none when the batch is). Up to
--   p_size rows are one part. More are sealed first (see queen.seal_batch); once a part of a batch is stored, the others come from the rows
--   sealed then, whatever a later attempt has staged: it may have them in another order.
-- Locks: the sink's row, so that no part is being stored; what queen.create_partitions takes, until the caller commits.
create or replace function queen.prepare_ingest(p_sink text, p_batch bigint, p_stages bigint[], p_rows bigint, p_size bigint)
returns jsonb
language plpgsql volatile as $$
declare
    v_sink   bigint;
    v_sealed text;
    v_total  integer;
    v_done   integer[];
    v_parts  integer[];
    v_rows   bigint;
    v_queues text[];
    v_names  text[];
begin
    select id into v_sink from queen.sinks where name = p_sink for update;
    v_sealed := format('spark_batch_%s_%s', v_sink, p_batch);
    delete from queen.sink_batches where sink_id = v_sink and batch < p_batch - 1000;
    select max(b.buckets), array_agg(b.bucket) into v_total, v_done from queen.sink_batches b where b.sink_id = v_sink and b.batch = p_batch;
    if cardinality(v_done) = v_total then
        return jsonb_build_object('parts', '[]'::jsonb, 'total', v_total);
    end if;
    if v_done is not null then
        if to_regclass('queen.' || v_sealed) is null then
            perform queen.raise_error('STAGE_LOST', format(
                'batch %s of sink %L was stored in part (%s of %s) and the rest of its rows is gone: compare source and target, then write '
                'what is missing under another writeId or checkpoint', p_batch, p_sink, cardinality(v_done), v_total));
        end if;
        execute format('select array_agg(distinct part order by part) from queen.%I where part <> all ($1)', v_sealed) into v_parts using v_done;
        return jsonb_build_object('source', v_sealed, 'stages', array[0], 'parts', v_parts, 'total', v_total);
    end if;
    execute format($sql$
        select sum(l.n), array_agg(l.queue), array_agg(l.partition) from (
            select queue, partition, count(*) as n from queen.%I where stage = any ($1) group by 1, 2) l$sql$, 'spark_stage_' || v_sink)
       into v_rows, v_queues, v_names using p_stages;
    if coalesce(v_rows, 0) <> p_rows then
        perform queen.raise_error('STAGE_LOST', format(
            'batch %s of sink %L has %s of %s rows in its stage: the database lost them in a crash, or another run of the sink '
            'took them; run the query again', p_batch, p_sink, coalesce(v_rows, 0), p_rows));
    end if;
    perform queen.create_partitions(v_queues, v_names);
    if v_rows <= p_size then
        return jsonb_build_object('source', 'spark_stage_' || v_sink, 'stages', p_stages, 'parts', array[0], 'total', 1);
    end if;
    v_parts := queen.seal_batch('spark_stage_' || v_sink, v_sealed, p_stages, p_size);
    return jsonb_build_object('source', v_sealed, 'stages', array[0], 'parts', v_parts, 'total', cardinality(v_parts));
end $$;
