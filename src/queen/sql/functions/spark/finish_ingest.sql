-- Promises: a batch of which all parts are stored is one claim, durable, and its seal is gone.
-- Locks: the sink's row.
create or replace function queen.finish_ingest(p_sink text, p_batch bigint) returns void
language plpgsql volatile as $$
declare
    v_sink bigint;
begin
    -- The parts did not wait for the disk one by one.
    perform set_config('synchronous_commit', 'on', true);
    select id into v_sink from queen.sinks where name = p_sink for update;
    if exists (select from queen.sink_batches b where b.sink_id = v_sink and b.batch = p_batch having count(*) = max(b.buckets)) then
        with parts as (
            delete from queen.sink_batches b where b.sink_id = v_sink and b.batch = p_batch returning b.*
        )
        insert into queen.sink_batches (sink_id, batch, bucket, buckets, stored, duplicates, scheduled, stored_at)
        select v_sink, p_batch, 0, 1, sum(stored), sum(duplicates), sum(scheduled), max(stored_at) from parts;
        delete from queen.sink_seals s where s.sink_id = v_sink and s.batch = p_batch;
    end if;
end $$;
