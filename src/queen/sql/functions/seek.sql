-- Promises: moves a group's cursors on a queue (or one partition): to start, end, just after the newest message not later than a time, or
--   to a seq. Leases end, retries start again. p_dry_run: only says what would happen. Returns one row: partitions moved, messages that
--   are delivered again, messages that are skipped.
-- Locks: queue row, credit slots, partition rows by id, consumer rows (R3).
create or replace function queen.seek(
    p_queue text, p_group text, p_to text, p_time timestamptz default null, p_seq bigint default null, p_partition text default null,
    p_dry_run boolean default false
) returns table (partitions bigint, redelivered bigint, skipped bigint)
language plpgsql volatile as $$
declare
    v_now   timestamptz;
    v_ids   bigint[];
    q       queen.queues;
begin
    select x.* into q from queen.queues x where x.name = p_queue for no key update;
    if not found then
        perform queen.raise_error('QUEUE_NOT_FOUND', format('there is no queue %L', p_queue));
    end if;
    perform from queen.queue_credits where queue_id = q.id order by slot for no key update;
    select coalesce(array_agg(n.id), '{}') into v_ids
      from (select p.id from queen.partitions p
             where p.queue_id = q.id and (p_partition is null or p.name = p_partition)
               and exists (select from queen.partition_consumers c where c.partition_id = p.id and c.consumer_group = p_group)
             order by p.id for no key update) n;
    perform from queen.partition_consumers c where c.partition_id = any (v_ids) and c.consumer_group = p_group
      order by c.partition_id for no key update;
    v_now := queen.clock();
    return query
        with moves as materialized (
            select p.id, c.last_consumed_seq as was, c.lease_id, c.batch_from, c.batch_to, c.lease_acquired_at, c.retry_count,
                   least(greatest(case p_to
                       when 'start' then p.first_seq - 1
                       when 'end' then p.next_seq - 1
                       when 'time' then queen.seq_at(p.id, p_time, true)
                       else p_seq end, p.first_seq - 1), p.next_seq - 1) as target,
                   p.first_seq, p.next_seq
              from queen.partitions p
              join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = p_group
             where p.id = any (v_ids)
        ), moved as (
            update queen.partition_consumers c
               set last_consumed_seq = m.target, lease_id = null, retry_count = 0, delivery_count = 0, idle_ms = 0,
                   ready_at = case when m.next_seq > m.target + 1 then v_now end
              from moves m
             where not p_dry_run and c.partition_id = m.id and c.consumer_group = p_group
            returning c.partition_id
        ), ended as (
            insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                          lease_id, outcome, consumer_group)
            select q.id, m.id, m.batch_from, m.batch_to, m.lease_acquired_at, v_now, m.retry_count, 0, m.lease_id, 'moved', p_group
              from moves m where not p_dry_run and m.lease_id is not null and q.delivery_log
            returning 1
        ), recounted as (
            update queen.queue_credits set credit = 0 where not p_dry_run and queue_id = q.id returning 1
        )
        select count(*), coalesce(sum(greatest(greatest(m.was, m.first_seq - 1) - m.target, 0)), 0)::bigint,
               coalesce(sum(greatest(m.target - greatest(m.was, m.first_seq - 1), 0)), 0)::bigint
          from moves m;
end $$;
