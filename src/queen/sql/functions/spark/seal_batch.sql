-- Promises: the staged rows are in a table of their own that survives a crash, cut into parts of at most p_size rows; returns their numbers.
--   A partition lies in parts of one residue modulo 8 only, in order: parts of different residues may be stored side by side. What
--   goes to limited queues is one part, -1, of any size: there is room for all of it or for nothing.
-- Locks: nothing more than the caller holds (the sink's row).
create or replace function queen.seal_batch(p_stage text, p_sealed text, p_stages bigint[], p_size bigint) returns integer[]
language plpgsql volatile as $$
declare
    v_parts integer[];
begin
    execute format('drop table if exists queen.%I', p_sealed);
    execute format($sql$
        create table queen.%I with (autovacuum_enabled = off) as
        select 0::bigint as stage, s.place, s.queue, s.partition, s.id, s.payload, s.is_encrypted, s.transaction_id, s.trace_id, s.parent_id,
               s.deliver_at,
               (case when q.max_queue_size > 0 then -1
                     else s.bucket %% 8 + 8 * ((row_number() over (partition by s.bucket %% 8, q.max_queue_size > 0
                                                                   order by s.queue, s.partition, s.place) - 1) / %s) end)::integer as part
          from queen.%I s join queen.queues q on q.name = s.queue
         where s.stage = any (%L::bigint[])$sql$, p_sealed, p_size, p_stage, p_stages);
    execute format('create index on queen.%I (part)', p_sealed);
    execute format('analyze queen.%I (part, queue, partition, transaction_id)', p_sealed);
    execute format('select array_agg(distinct part order by part) from queen.%I', p_sealed) into v_parts;
    return v_parts;
end $$;
