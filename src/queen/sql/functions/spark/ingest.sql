-- Promises: stores parts of a sealed batch, once: the claims and the rows commit together, and a part that is stored already is left alone.
--   Rows of a partition keep their order (place), take contiguous seqs and growing pos; a transaction id that is there already, or came
--   earlier in the batch, is not stored again; deliver_at in the future: kept aside. Raises QUEUE_FULL (nothing of the parts is stored),
--   ENCRYPTION_REQUIRED. Consumers are woken. Some of several parts do not wait for the disk: queen.finish_ingest does, for all.
-- Locks: the sink's row (shared); the claims by place; credit slots of limited queues by queue id; partition rows by id; then consumer rows (R1).
create or replace function queen.ingest(p_sink text, p_batch bigint, p_stages bigint[], p_parts bigint[], p_places integer[], p_total integer)
returns table (stored bigint, duplicates bigint, scheduled bigint)
language plpgsql volatile
set work_mem = '64MB' set jit = off as $$
declare
    v_sink   bigint;
    v_stage  text;
    v_now    timestamptz;
    v_counts bigint[];
    v_later  bigint := 0;
    v_parts  bigint[];  -- those that are not stored yet, and the first place of them
    v_place  integer;
    l        record;  -- the partitions by id: ids, queues, sizes, delays (arrays), rows, sealed, later
begin
    if p_total > cardinality(p_parts) then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    select s.id, 'spark_stage_' || s.id into v_sink, v_stage from queen.sinks s where s.name = p_sink for share;
    with claimed as (
        insert into queen.sink_batches (sink_id, batch, bucket, buckets, stored_at)
        select v_sink, p_batch, n.place, p_total, queen.clock() from unnest(p_places) n(place) order by n.place
            on conflict do nothing
        returning bucket
    )
    select array_agg(n.part), min(n.place) into v_parts, v_place
      from unnest(p_parts, p_places) n(part, place) join claimed c on c.bucket = n.place;
    if v_parts is null then
        return query select 0::bigint, 0::bigint, 0::bigint;
        return;
    end if;
    execute format($sql$
        select array_agg(p.id order by p.id) as ids, array_agg(q.id order by p.id) as queues, array_agg(l.n order by p.id) as sizes,
               array_agg(greatest(q.delayed_processing, q.window_buffer)::double precision order by p.id) as delays,
               sum(l.n) as rows, bool_or(q.encryption_enabled) as sealed, bool_or(l.later) as later
          from (select queue, partition, count(*) as n, count(deliver_at) > 0 as later from queen.%I
                 where stage = any ($1) and part = any ($2) group by 1, 2) l
          join queen.queues q on q.name = l.queue
          join queen.partitions p on p.queue_id = q.id and p.name = l.partition$sql$, v_stage)
       into l using p_stages, v_parts;
    if l.ids is null then
        return query select 0::bigint, 0::bigint, 0::bigint;
        return;
    end if;
    if l.sealed then
        perform queen.require_staged_sealed(v_stage, p_stages, v_parts);
    end if;
    perform queen.ingest_credit(l.queues, l.sizes);
    perform queen.announce();
    perform from queen.partitions where id = any (l.ids) order by id for no key update;
    v_now := queen.clock();
    if l.later then
        v_later := queen.schedule_staged(v_stage, p_stages, v_parts, v_now);
    end if;
    begin
        v_counts := queen.ingest_rows(v_stage, p_stages, v_parts, l.ids, v_now);
    exception when unique_violation then
        perform queen.drop_duplicates(v_stage, p_stages, v_parts, l.ids);
        v_counts := queen.ingest_rows(v_stage, p_stages, v_parts, l.ids, v_now);
    end;
    perform queen.raise_heads(l.ids, v_counts, l.delays, v_now);
    perform queen.expect_eviction(l.ids);
    perform pg_notify('queen', n.id::text) from (select distinct unnest(l.queues) as id) n;
    return query
        update queen.sink_batches b
           set stored = n.stored, scheduled = v_later, duplicates = l.rows - n.stored - v_later
          from (select coalesce(sum(c), 0)::bigint as stored from unnest(v_counts) c) n
         where b.sink_id = v_sink and b.batch = p_batch and b.bucket = v_place
        returning b.stored, b.duplicates, b.scheduled;
end $$;
