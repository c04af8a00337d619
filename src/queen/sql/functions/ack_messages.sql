-- Promises: acknowledges single messages by transaction id (or seq), each completed | failed | dlq | retry, as in the table of outcomes
--   in docs/concepts: decided once per (call, partition, group), see queen.ack_lane.
--   One row per item, in any order: status acked | noop | lost | unknown | committed | busy | invalid, whether its lease was released and
--   whether it became a dead letter. p_wait false: partitions someone else holds for the group are 'busy' (R6). A token that is gone
--   never comes back, so that this is said without waiting for anybody.
-- Locks: where something may become a dead letter the queue and the partition (queen.keep_partition); consumer rows by (partition,
--   group); partition rows only with SKIP LOCKED (R2).
create or replace function queen.ack_messages(
    p_call integer[], p_partition bigint[], p_group text[], p_lease uuid[], p_transaction_id text[], p_seq bigint[], p_status text[],
    p_error text[], p_wait boolean default true, p_at_once boolean default false
) returns table (item integer, status text, released boolean, dead boolean, queue_id bigint, queue_name text, partition_name text)
language plpgsql volatile as $$
declare
    l record;
    q record;
begin
    for l in
        select n.id, n.name, array_agg(n.place::integer order by n.place) as items, array_agg(n.lease order by n.place) as leases,
               array_agg(n.transaction_id order by n.place) as names, array_agg(n.seq order by n.place) as seqs,
               array_agg(n.status order by n.place) as statuses, array_agg(n.error order by n.place) as errors,
               bool_or(n.status in ('failed', 'dlq')) as dying
          from unnest(p_partition, p_group, p_call, p_lease, p_transaction_id, p_seq, p_status, p_error) with ordinality
               n(id, name, call, lease, transaction_id, seq, status, error, place)
         group by n.id, n.name, n.call order by n.id, n.name, n.call
    loop
        select x.id, x.name, p.name as partition_name, c.partition_id is not null and array_position(l.leases, null) is null
               and c.lease_id = any (l.leases) is not true as lost
          into q
          from queen.partitions p join queen.queues x on x.id = p.queue_id
          left join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = l.name
         where p.id = l.id;
        if q.lost then
            return query
                select i.item, case when i.status in ('completed', 'failed', 'dlq', 'retry') then 'lost' else 'invalid' end, false, false,
                       q.id, q.name, q.partition_name
                  from unnest(l.items, l.statuses) i(item, status);
        elsif (not l.dying or queen.keep_partition(l.id, p_wait))
           and exists (select from queen.lock_lanes(array[l.id], array[l.name], p_wait)) then
            return query
                select a.item, a.status, a.released, a.dead, q.id, q.name, q.partition_name
                  from queen.ack_lane(l.id, l.name, l.items, l.leases, l.names, l.seqs, l.statuses, l.errors, p_at_once) a;
        else
            return query
                select i.item, case when not p_wait and exists (select from queen.partition_consumers pc
                                              where pc.partition_id = l.id and pc.consumer_group = l.name) then 'busy' else 'unknown' end,
                       false, false, null::bigint, null::text, q.partition_name
                  from unnest(l.items) i(item);
        end if;
    end loop;
end $$;
