-- Promises: stores the staged rows of one part of a batch, once: the claim and the rows commit together, and a part that is stored already
--   is left alone. Rows of a partition keep their order (place), take contiguous seqs and growing pos; a transaction id that is
--   there already, or came earlier in the batch, is not stored again; deliver_at in the future: kept aside. Raises QUEUE_FULL (nothing of
--   the part is stored), ENCRYPTION_REQUIRED. Consumers are woken.
-- Locks: the claim; credit slots of limited queues by queue id; partition rows by id; then consumer rows (R1).
create or replace function queen.ingest(p_sink text, p_batch bigint, p_stages bigint[], p_bucket integer, p_buckets integer)
returns table (stored bigint, duplicates bigint, scheduled bigint)
language plpgsql volatile
set work_mem = '64MB' set jit = off as $$
declare
    v_sink   bigint;
    v_stage  text;
    v_now    timestamptz;
    v_rows   bigint;
    v_later  bigint := 0;
    v_ids    bigint[];
    v_queues bigint[];
    v_sizes  bigint[];
    v_delays double precision[];
    v_kept   bigint[];
    v_counts bigint[];
begin
    select s.id, 'spark_stage_' || s.id into v_sink, v_stage from queen.sinks s where s.name = p_sink;
    insert into queen.sink_batches (sink_id, batch, bucket, buckets, stored_at)
    values (v_sink, p_batch, p_bucket, p_buckets, queen.clock()) on conflict do nothing;
    if not found then
        return query select 0::bigint, 0::bigint, 0::bigint;
        return;
    end if;
    execute format($sql$
        select array_agg(p.id order by p.id), array_agg(q.id order by p.id), array_agg(l.n order by p.id),
               array_agg(greatest(q.delayed_processing, q.window_buffer)::double precision order by p.id), sum(l.n)
          from (select queue, partition, count(*) as n from queen.%I
                 where stage = any ($1) and bucket %% $2 = $3 group by 1, 2) l
          join queen.queues q on q.name = l.queue
          join queen.partitions p on p.queue_id = q.id and p.name = l.partition$sql$, v_stage)
       into v_ids, v_queues, v_sizes, v_delays, v_rows using p_stages, p_buckets, p_bucket;
    if v_ids is null then
        return query select 0::bigint, 0::bigint, 0::bigint;
        return;
    end if;
    perform queen.ingest_credit(v_queues, v_sizes);
    perform queen.announce();
    perform from queen.partitions where id = any (v_ids) order by id for no key update;
    v_now := queen.clock();
    begin
        select r.ids, r.counts, r.scheduled into v_kept, v_counts, v_later
          from queen.ingest_rows(v_stage, p_stages, p_bucket, p_buckets, v_ids, v_now, false) r;
    exception when unique_violation then
        select r.ids, r.counts, r.scheduled into v_kept, v_counts, v_later
          from queen.ingest_rows(v_stage, p_stages, p_bucket, p_buckets, v_ids, v_now, true) r;
    end;
    perform queen.raise_heads(v_ids, v_counts, v_delays, v_now);
    perform pg_notify('queen', n.id::text) from (select distinct unnest(v_queues) as id) n;
    return query
        update queen.sink_batches b
           set stored = n.stored, scheduled = v_later, duplicates = v_rows - n.stored - v_later
          from (select coalesce(sum(c), 0)::bigint as stored from unnest(v_counts) c) n
         where b.sink_id = v_sink and b.batch = p_batch and b.bucket = p_bucket
        returning b.stored, b.duplicates, b.scheduled;
end $$;
