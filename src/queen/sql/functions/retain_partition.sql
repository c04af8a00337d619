-- Promises: applies a queue's retention to one partition: removes messages older than retention_seconds, consumed or not, except inside a
--   live lease; and messages older than completed_retention_seconds that every known group has passed (at least one group must exist).
--   With `archive` on, nothing is removed that is not in every lake yet (none there: nothing at all). At most p_limit messages; returns
--   how many went.
-- Locks: the partition row (SKIP LOCKED: a busy partition is left for the next run); consumer rows are only read.
create or replace function queen.retain_partition(p_partition bigint, p_limit integer default 10000) returns bigint
language plpgsql volatile as $$
declare
    q         queen.queues;
    v_now     timestamptz;
    v_removed bigint := 0;
    v_up_to   bigint;
    v_leased  bigint;
    v_passed  bigint;
    v_pos     bigint;
    v_kept    bigint;
begin
    perform from queen.partitions where id = p_partition for no key update skip locked;
    if not found then
        return 0;
    end if;
    select x.* into q from queen.queues x join queen.partitions p on p.queue_id = x.id where p.id = p_partition;
    if not q.retention_enabled then
        return 0;
    end if;
    v_now := queen.clock();
    if q.archive then
        select coalesce(min(a.pos), 0) into v_pos from queen.archive_positions a where a.source = 'messages';
        select m.seq - 1 into v_kept from queen.partitions p join queen.messages m on m.partition_id = p.id
         where p.id = p_partition and m.seq >= p.first_seq and m.seq < p.first_seq + p_limit and m.pos >= v_pos order by m.seq limit 1;
    end if;
    v_kept := coalesce(v_kept, 9223372036854775807);
    if q.retention_seconds > 0 then
        select min(c.last_consumed_seq) into v_leased from queen.partition_consumers c
         where c.partition_id = p_partition and c.lease_id is not null and c.lease_expires_at > v_now;
        v_up_to := queen.seq_at(p_partition, v_now - make_interval(secs => q.retention_seconds));
        v_removed := queen.remove_range(p_partition, least(v_up_to, coalesce(v_leased, v_up_to), v_kept), p_limit, 'retention', v_now);
    end if;
    if q.completed_retention_seconds > 0 and v_removed < p_limit then
        -- In this order: a group that registers in between is then seen by the second look.
        if not exists (select from queen.subscriptions s where s.queue_id = q.id and not s.filled) then
            select min(c.last_consumed_seq) into v_passed from queen.partition_consumers c where c.partition_id = p_partition;
        end if;
        if v_passed is not null then
            v_up_to := queen.seq_at(p_partition, v_now - make_interval(secs => q.completed_retention_seconds));
            v_removed := v_removed + queen.remove_range(p_partition, least(v_up_to, v_passed, v_kept),
                                                        p_limit - v_removed::integer, 'completed', v_now);
        end if;
    end if;
    return v_removed;
end $$;
