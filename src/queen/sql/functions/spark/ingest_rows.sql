-- Promises: the rows of queen.ingest are in queen.messages and queen.scheduled_messages; returns the partitions with the number stored in
--   each, in the order of p_ids. p_careful: transaction ids may be there already or come twice; without it a duplicate raises
--   unique_violation.
-- Locks: nothing more than the caller holds (the partition rows).
create or replace function queen.ingest_rows(
    p_stage text, p_stages bigint[], p_bucket integer, p_buckets integer, p_ids bigint[], p_now timestamptz, p_careful boolean
) returns table (ids bigint[], counts bigint[], scheduled bigint)
language plpgsql volatile as $$
declare
    v_sealed text;
begin
    execute format($sql$
        select s.queue from queen.%I s join queen.queues q on q.name = s.queue
         where q.encryption_enabled and not s.is_encrypted and s.stage = any ($1) limit 1$sql$, p_stage)
       into v_sealed using p_stages;
    if v_sealed is not null then
        perform queen.raise_error('ENCRYPTION_REQUIRED', format(
            'queue %L takes encrypted payloads only: set QUEEN_ENCRYPTION_KEY in the environment of the executors', v_sealed));
    end if;
    return query execute format($sql$
        with lanes as materialized (
            select p.id, p.queue_id, q.name as queue, p.name as partition, p.next_seq, p.last_created_at
              from queen.partitions p join queen.queues q on q.id = p.queue_id where p.id = any ($4)
        ), rows as (
            select l.id as lane, l.queue_id, l.next_seq, l.last_created_at, s.*
              from queen.%1$I s join lanes l on l.queue = s.queue and l.partition = s.partition
             where s.stage = any ($1) and s.bucket %% $2 = $3
               and (not $6 or s.transaction_id is null or not exists (
                    select from queen.messages m where m.partition_id = l.id and m.transaction_id = s.transaction_id))
        ), firsts as (
            select r.*, case when $6 and r.transaction_id is not null
                             then row_number() over (partition by r.lane, r.transaction_id order by r.place) else 1 end as copy
              from rows r
        ), later as (
            insert into queen.scheduled_messages (id, queue_id, partition_name, deliver_at, transaction_id, trace_id, parent_id,
                                                  payload, is_encrypted, created_at)
            select f.id, f.queue_id, f.partition, f.deliver_at, f.transaction_id, f.trace_id, f.parent_id, f.payload,
                   f.is_encrypted, $5
              from firsts f where f.deliver_at > $5 and f.copy = 1
                on conflict do nothing
            returning 1
        ), ranked as (
            select f.*, row_number() over (partition by f.lane order by f.place) - 1 as rank
              from firsts f
             where f.copy = 1 and (f.deliver_at is null or f.deliver_at <= $5)
             order by f.lane, f.place
        ), stored as (
            insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted, transaction_id,
                                        payload)
            select r.lane, r.next_seq + r.rank, nextval('queen.message_pos'), r.id, r.trace_id, r.parent_id,
                   greatest($5, r.last_created_at), r.is_encrypted, r.transaction_id, r.payload
              from ranked r
            returning partition_id
        ), sums as (
            select partition_id, count(*) as n from stored group by 1
        )
        select $4, (select array_agg(coalesce(n.n, 0) order by i.place)
                      from unnest($4) with ordinality i(id, place) left join sums n on n.partition_id = i.id),
               (select count(*) from later)$sql$, p_stage)
       using p_stages, p_buckets, p_bucket, p_ids, p_now, p_careful;
end $$;
