-- Promises: stores many messages inside the caller's own transaction, all or none, in the order given: the n-th payload goes to the n-th
--   partition, under the n-th transaction id if there is one. One row per message in that order: queued, or duplicate with the
--   first one's id and seq. Raises QUEUE_FULL, ENCRYPTION_REQUIRED, INVALID_*.
-- Locks: as queen.push_messages, until the caller's transaction ends. Other partitions are not held up.
create or replace function queen.push_many(queue text, partition text[], payload jsonb[], transaction_id text[] default null)
returns table (partition_name text, seq bigint, message_id uuid, status text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    a record;  -- the items by partition, as arrays
    b record;  -- what became of them: by item, or by partition when all of it is new
begin
    perform queen.require_name('queue', push_many.queue);
    if cardinality(push_many.payload) <> cardinality(push_many.partition)
       or cardinality(push_many.payload) <> cardinality(push_many.transaction_id) then
        perform queen.raise_error('INVALID_PAYLOAD', 'partition, payload and transaction_id must have the same number of elements');
    end if;
    perform queen.require_item(i.name, i.id) from unnest(push_many.partition, push_many.transaction_id) i(name, id);
    with items as materialized (
        select i.place, coalesce(i.name, 'Default') as name, i.payload, i.transaction_id, queen.uuid7() as id,
               dense_rank() over (order by coalesce(i.name, 'Default'))::integer as number
          from unnest(push_many.partition, push_many.payload, push_many.transaction_id)
               with ordinality i(name, payload, transaction_id, place)
    ), ranked as (
        select i.*, row_number() over (partition by i.number order by i.place)::integer - 1 as rank from items i
    )
    select array(select distinct on (i.number) i.name from items i order by i.number) as names,
           array_agg(i.place order by i.number, i.place) as places, array_agg(i.number order by i.number, i.place) as numbers,
           array_agg(i.rank order by i.number, i.place) as ranks, array_agg(i.id order by i.number, i.place) as ids,
           array_agg(i.payload order by i.number, i.place) as payloads,
           case when count(i.transaction_id) > 0 then array_agg(i.transaction_id order by i.number, i.place) end as transactions,
           count(i.transaction_id) > count(distinct (i.number, i.transaction_id)) filter (where i.transaction_id is not null) as repeated,
           array_agg(i.payload ?& array['encrypted', 'iv', 'authTag'] order by i.number, i.place) as sealed
      into a from ranked i;
    if a.ids is null then
        return;
    end if;
    select array_agg(p.lane) as numbers, array_agg(p.item) as items, array_agg(p.status) as statuses, array_agg(p.seq) as seqs,
           array_agg(p.message_id) as ids, max(p.depth) as depth, max(p.queue_limit) as queue_limit, max(p.queue_id) as queue_id,
           bool_or(p.woken or p.seq = 1) as woken
      into b
      from queen.push_messages(
           array_fill(push_many.queue, array[cardinality(a.names)]), a.names, a.numbers, a.ranks, a.ids, a.payloads, a.transactions,
           p_encrypted => case when (select q.encryption_enabled from queen.queues q where q.name = push_many.queue) then a.sealed end,
           p_careful => a.repeated) p
     where p.status <> 'depth';
    if 'full' = any (b.statuses) then
        perform queen.raise_full(push_many.queue, b.depth, b.queue_limit);
    elsif b.woken then
        perform queen.wake(b.queue_id);
    end if;
    return query
        select a.names[i.number], o.seq + case when o.item is null then i.rank else 0 end, coalesce(o.id, i.id), o.status
          from unnest(a.places, a.numbers, a.ranks, a.ids) with ordinality i(place, number, rank, id, n)
          join unnest(b.numbers, b.items, b.statuses, b.seqs, b.ids) o(number, item, status, seq, id)
            on o.item = i.n or (o.item is null and o.number = i.number)
         order by i.place;
end $$;
