-- Promises: everything queen.ingest needs for a batch: all staged rows are there (else STAGE_LOST: the stage was lost, or another run of the
--   sink swept it), queues and partitions exist, old claims are forgotten, and the batch is sealed: from now on it is made of these rows.
--   Returns the stages its rows are in, its parts in order, and which of them are not stored yet (rest: places among the parts, from
--   0; none when the batch is stored). Once a part of a batch is stored, the others come from the rows it was sealed with, whatever
--   a later attempt has staged: it may have them in another order.
-- Locks: the sink's row, so that no part is being stored; what queen.create_partitions takes, until the caller commits.
create or replace function queen.prepare_ingest(p_sink text, p_batch bigint, p_stages bigint[], p_rows bigint)
returns jsonb
language plpgsql volatile
-- All of the stage is read: in the order of an index that takes three times as long.
set enable_seqscan = on as $$
declare
    v_sink   bigint;
    v_stages bigint[];
    v_parts  bigint[];
    v_total  integer;
    v_done   integer[];
    v_rows   bigint;
    v_queues text[];
    v_names  text[];
begin
    select id into v_sink from queen.sinks where name = p_sink for update;
    delete from queen.sink_batches where sink_id = v_sink and batch < p_batch - 1000;
    select max(b.buckets), array_agg(b.bucket) into v_total, v_done from queen.sink_batches b where b.sink_id = v_sink and b.batch = p_batch;
    if cardinality(v_done) = v_total then
        return jsonb_build_object('rest', '[]'::jsonb);
    end if;
    if v_done is not null then
        select s.stages, s.parts into v_stages, v_parts from queen.sink_seals s where s.sink_id = v_sink and s.batch = p_batch;
        if to_regclass('queen.spark_stage_' || v_sink) is null then
            perform queen.raise_error('STAGE_LOST', format(
                'batch %s of sink %L was stored in part (%s of %s) and the rest of its rows is gone: compare source and target, then write '
                'what is missing under another writeId or checkpoint', p_batch, p_sink, cardinality(v_done), v_total));
        end if;
    else
        if p_rows > 1000 then
            execute format('analyze queen.%I (stage, part, queue, partition, transaction_id)', 'spark_stage_' || v_sink);
        end if;
        execute format($sql$
            select sum(l.n), array_agg(l.queue), array_agg(l.partition) from (
                select queue, partition, count(*) as n from queen.%I where stage = any ($1) group by 1, 2) l$sql$, 'spark_stage_' || v_sink)
           into v_rows, v_queues, v_names using p_stages;
        if coalesce(v_rows, 0) <> p_rows then
            perform queen.raise_error('STAGE_LOST', format(
                'batch %s of sink %L has %s of %s rows in its stage: another run of the sink took them, or they were lost with the table; '
                'run the query again', p_batch, p_sink, coalesce(v_rows, 0), p_rows));
        end if;
        execute format('select array_agg(p.part order by p.part) from (select distinct part from queen.%I where stage = any ($1)) p',
                       'spark_stage_' || v_sink) into v_parts using p_stages;
        v_stages := p_stages;
        insert into queen.sink_seals as s (sink_id, batch, stages, parts) values (v_sink, p_batch, v_stages, v_parts)
            on conflict (sink_id, batch) do update set stages = excluded.stages, parts = excluded.parts;
        -- Last, because whoever pushes into a queue that this creates waits until the caller commits.
        perform queen.create_partitions(v_queues, v_names);
    end if;
    return jsonb_build_object('stages', v_stages, 'parts', v_parts, 'rest', array(
        select i - 1 from generate_subscripts(v_parts, 1) i where i - 1 <> all (coalesce(v_done, '{}')) order by i));
end $$;
