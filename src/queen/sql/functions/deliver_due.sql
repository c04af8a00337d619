-- Promises: pushes up to p_limit scheduled messages that are due, in the order they are due, and removes them from the schedule in the
--   same transaction. Partitions that are busy and queues that are full are left for the next run. Returns how many were pushed, and
--   the queues that have something new.
-- Locks: scheduled rows (SKIP LOCKED), then as queen.push_messages with p_wait false.
create or replace function queen.deliver_due(p_limit integer default 1000) returns table (delivered bigint, queue_ids bigint[])
language plpgsql volatile as $$
declare
    v_now    timestamptz := queen.clock();
    v_count  bigint := 0;
    v_queues bigint[] := '{}';
    v_row    record;
    s        record;
begin
    for s in
        select m.*, q.name as queue_name from queen.scheduled_messages m join queen.queues q on q.id = m.queue_id
         where m.deliver_at <= v_now order by m.deliver_at, m.id limit p_limit for update of m skip locked
    loop
        select * into v_row from queen.push_messages(
            array[s.queue_name], array[s.partition_name], array[1], array[0], array[s.id], array[s.payload],
            case when s.transaction_id is not null then array[s.transaction_id] end, array[s.trace_id], array[s.parent_id], null,
            array[s.producer_sub], array[s.is_encrypted], null, false);
        if v_row.status in ('queued', 'duplicate') then
            delete from queen.scheduled_messages where id = s.id;
            v_count := v_count + 1;
            v_queues := v_queues || v_row.queue_id;
        end if;
    end loop;
    return query select v_count, (select coalesce(array_agg(distinct x), '{}') from unnest(v_queues) x);
end $$;
