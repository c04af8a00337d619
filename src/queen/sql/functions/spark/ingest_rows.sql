-- Promises: the staged rows of the partitions are in queen.messages, in order of place, from next_seq on; returns the number stored in each
--   partition, in the order of p_ids. Raises unique_violation on a transaction id that is already there.
-- Locks: nothing more than the caller holds (the partition rows).
create or replace function queen.ingest_rows(
    p_stage text, p_stages bigint[], p_parts bigint[], p_ids bigint[], p_now timestamptz
) returns bigint[]
language plpgsql volatile
-- Without statistics the planner would compare every row with every lane.
set enable_nestloop = off as $$
declare
    v_counts bigint[];
begin
    execute format($sql$
        with lanes as materialized (
            select p.id, q.name as queue, p.name as partition, p.next_seq, p.last_created_at
              from queen.partitions p join queen.queues q on q.id = p.queue_id where p.id = any ($3)
        ), stored as (
            insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted, transaction_id,
                                        payload)
            select r.lane, r.next_seq + r.rank, nextval('queen.message_pos'), r.id, r.trace_id, r.parent_id,
                   greatest($4, r.last_created_at), r.is_encrypted, r.transaction_id, r.payload
              from (select l.id as lane, l.next_seq, l.last_created_at, s.id, s.trace_id, s.parent_id, s.is_encrypted, s.transaction_id,
                           s.payload, row_number() over (partition by l.id order by s.place) - 1 as rank
                      from queen.%I s join lanes l on l.queue = s.queue and l.partition = s.partition
                     where s.stage = any ($1) and s.part = any ($2)
                     order by l.id, s.place) r
            returning partition_id
        ), sums as (
            select partition_id, count(*) as n from stored group by 1
        )
        select array_agg(coalesce(n.n, 0) order by i.place)
          from unnest($3) with ordinality i(id, place) left join sums n on n.partition_id = i.id$sql$, p_stage)
       into v_counts using p_stages, p_parts, p_ids, p_now;
    return v_counts;
end $$;
