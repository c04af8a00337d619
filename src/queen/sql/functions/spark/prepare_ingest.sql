-- Promises: everything queen.ingest needs for a batch: all staged rows are there (else STAGE_LOST: the server went down meanwhile, or
--   another run of the same sink swept them), queues and partitions exist, old claims are forgotten. Returns in how many parts
--   the batch is stored: p_buckets, or what an earlier attempt began with. 0 when the whole batch is stored already.
-- Locks: what queen.create_partitions takes, until the caller commits.
create or replace function queen.prepare_ingest(p_sink text, p_batch bigint, p_stages bigint[], p_rows bigint, p_buckets integer)
returns integer
language plpgsql volatile as $$
declare
    v_sink    bigint;
    v_buckets integer;
    v_done    integer;
    v_rows    bigint;
    v_queues  text[];
    v_lanes   text[];
begin
    select id into v_sink from queen.sinks where name = p_sink;
    delete from queen.sink_batches where sink_id = v_sink and batch < p_batch - 1000;
    select max(b.buckets), count(*) into v_buckets, v_done from queen.sink_batches b where b.sink_id = v_sink and b.batch = p_batch;
    if v_done = v_buckets then
        return 0;
    end if;
    execute format($sql$
        select sum(l.n), array_agg(l.queue), array_agg(l.partition) from (
            select queue, partition, count(*) as n from queen.%I where stage = any ($1) group by 1, 2) l$sql$, 'spark_stage_' || v_sink)
       into v_rows, v_queues, v_lanes using p_stages;
    if coalesce(v_rows, 0) <> p_rows then
        perform queen.raise_error('STAGE_LOST', format(
            'batch %s of sink %L has %s of %s rows in its stage: the database lost them in a crash, or another run of the sink '
            'took them; run the query again', p_batch, p_sink, coalesce(v_rows, 0), p_rows));
    end if;
    if v_rows > 1000 then
        execute format('analyze queen.%I (stage, bucket, queue, partition, transaction_id)', 'spark_stage_' || v_sink);
    end if;
    if v_rows > 0 then
        perform queen.create_partitions(v_queues, v_lanes);
    end if;
    return coalesce(v_buckets, p_buckets);
end $$;
