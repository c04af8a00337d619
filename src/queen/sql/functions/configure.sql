-- Promises: creates or changes a queue; options left out of p_options keep their value (the callers decide what a full overwrite means).
--   Lowering a delay or window makes waiting lanes ready again for the next pop to decide. Creates partition Default. Returns the queue.
-- Locks: the queue row; partition rows, then unleased consumer rows, only when a delay, window, limit or maximum wait changed (R3).
create or replace function queen.configure(p_queue text, p_options jsonb, p_namespace text default null, p_task text default null)
returns queen.queues
language plpgsql volatile as $$
declare
    v_old queen.queues;
    v_new queen.queues;
begin
    -- The queue first: creating the partition takes a weaker lock on it, and two callers could not both raise theirs.
    select * into v_old from queen.queues where name = p_queue for no key update;
    perform queen.create_partitions(array[p_queue], array['Default']);
    if v_old.id is null then
        select * into v_old from queen.queues where name = p_queue for no key update;
    end if;
    v_new := jsonb_populate_record(v_old, p_options);
    update queen.queues
       set namespace = coalesce(p_namespace, v_old.namespace), task = coalesce(p_task, v_old.task),
           priority = v_new.priority, lease_time = v_new.lease_time, retry_limit = v_new.retry_limit, retry_delay = v_new.retry_delay,
           max_deliveries = v_new.max_deliveries, partial_failure = v_new.partial_failure,
           delayed_processing = v_new.delayed_processing, window_buffer = v_new.window_buffer,
           retention_enabled = v_new.retention_enabled, retention_seconds = v_new.retention_seconds,
           completed_retention_seconds = v_new.completed_retention_seconds, max_wait_time_seconds = v_new.max_wait_time_seconds,
           encryption_enabled = v_new.encryption_enabled, max_queue_size = v_new.max_queue_size, delivery_log = v_new.delivery_log,
           archive = v_new.archive, paused = v_new.paused, ttl = v_new.ttl, dead_letter_queue = v_new.dead_letter_queue,
           dlq_after_max_retries = v_new.dlq_after_max_retries
     where id = v_old.id
    returning * into v_new;
    if v_new.max_queue_size <> v_old.max_queue_size then
        insert into queen.queue_credits (queue_id, slot) select v_old.id, s from generate_series(0, 15) s on conflict do nothing;
        perform from queen.queue_credits where queue_id = v_old.id order by slot for no key update;
        update queen.queue_credits set credit = 0 where queue_id = v_old.id;
    end if;
    if v_new.max_wait_time_seconds <> v_old.max_wait_time_seconds then
        update queen.partition_consumers c
           set evict_at = case when v_new.max_wait_time_seconds > 0 and c.ready_at is not null then queen.clock() end
         where c.queue_id = v_old.id and (c.ready_at is not null or c.evict_at is not null);
    end if;
    if v_new.delayed_processing < v_old.delayed_processing or v_new.window_buffer < v_old.window_buffer then
        perform from queen.partitions where queue_id = v_old.id order by id for no key update;
        update queen.partition_consumers c set ready_at = queen.clock()
         where c.queue_id = v_old.id and c.ready_at is not null and c.lease_id is null;
    end if;
    return v_new;
end $$;
