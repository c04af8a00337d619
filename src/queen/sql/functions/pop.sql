-- Promises: hands out up to `batch` waiting messages of a queue to a group, in order, one row per message, under one lease: until it ends
--   nobody else of the group gets messages of these partitions. Nothing waits: no rows. A group that is new to the queue starts with
--   `mode` all, new, or at `start_at`. `partition`: only from this one. `partitions`: from at most so many. `lease_seconds` null: the
--   queue's lease_time. `auto_ack`: done as soon as they are handed out, no lease. In a transaction that is rolled back nothing was
--   handed out. Payloads of encrypted queues come sealed. Raises INVALID_*.
-- Locks: as queen.pop_lanes, until the caller's transaction ends; a group's first pop also holds the queue's row, so that new partitions
--   wait for its commit.
create or replace function queen.pop(
    queue text, batch integer default 1, consumer_group text default '__QUEUE_MODE__', partition text default null,
    partitions integer default 1, lease_seconds integer default null, auto_ack boolean default false, mode text default 'all',
    start_at timestamptz default null
) returns table (lease_id uuid, partition_name text, seq bigint, message_id uuid, transaction_id text, payload jsonb,
                 created_at timestamptz, retry_count integer, delivery_count integer, trace_id uuid, parent_id uuid,
                 lease_expires_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_lease uuid := queen.uuid7();
    v_state text;
    l       record;
begin
    perform queen.require_name('queue', pop.queue), queen.require_name('consumer_group', pop.consumer_group);
    perform queen.require_number('batch', pop.batch, 1, 10000), queen.require_number('partitions', pop.partitions, 1, 10000);
    if pop.lease_seconds is not null then
        perform queen.require_number('lease_seconds', pop.lease_seconds, 1, 86400);
    end if;
    if pop.mode is null or pop.mode not in ('all', 'new') then
        perform queen.raise_error('INVALID_MODE', 'mode must be all or new; for a time give start_at');
    end if;
    for v_try in 1 .. 8 loop
        for l in select * from queen.pop_lanes(pop.queue, pop.consumer_group, array[pop.batch], array[least(pop.partitions, pop.batch)],
                                               array[v_lease], pop.partition, pop.lease_seconds, pop.auto_ack)
        loop
            if l.request = 0 then
                v_state := l.state;
                continue;
            end if;
            v_state := 'found';
            return query
                select case when not pop.auto_ack then v_lease end, l.partition_name, coalesce(m.seq, l.first_seq + m.place - 1), m.id,
                       coalesce(m.transaction_id, m.id::text), m.payload, m.created_at, l.retry_count, l.delivery_count, m.trace_id,
                       m.parent_id, case when not pop.auto_ack then l.lease_expires_at end
                  from unnest(l.message_ids, l.payloads, l.created_ats, l.transaction_ids, l.trace_ids, l.parent_ids, l.seqs)
                       with ordinality m(id, payload, created_at, transaction_id, trace_id, parent_id, seq, place);
        end loop;
        exit when v_state not in ('again', 'unregistered') and (v_state <> 'absent' or pop.consumer_group = '__QUEUE_MODE__');
        if v_state <> 'again' then
            perform queen.subscribe(pop.queue, pop.consumer_group, case when pop.start_at is null then pop.mode else 'timestamp' end,
                                    pop.start_at);
            while queen.fill_subscription(pop.queue, pop.consumer_group) loop
            end loop;
        end if;
    end loop;
end $$;
