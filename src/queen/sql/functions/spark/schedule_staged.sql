-- Promises: staged rows with deliver_at in the future are in queen.scheduled_messages and gone from the stage; one that is scheduled already
--   under its transaction id is dropped. Returns how many are scheduled now.
-- Locks: nothing (unique index).
create or replace function queen.schedule_staged(p_stage text, p_stages bigint[], p_parts bigint[], p_now timestamptz) returns bigint
language plpgsql volatile as $$
declare
    v_count bigint;
begin
    execute format($sql$
        with taken as (
            delete from queen.%I s where s.stage = any ($1) and s.part = any ($2) and s.deliver_at > $3 returning s.*
        ), kept as (
            insert into queen.scheduled_messages (id, queue_id, partition_name, deliver_at, transaction_id, trace_id, parent_id, payload,
                                                  is_encrypted, created_at)
            select t.id, q.id, t.partition, t.deliver_at, t.transaction_id, t.trace_id, t.parent_id, t.payload, t.is_encrypted, $3
              from taken t join queen.queues q on q.name = t.queue
             order by t.place
                on conflict do nothing
            returning 1
        )
        select count(*) from kept$sql$, p_stage)
       into v_count using p_stages, p_parts, p_now;
    return v_count;
end $$;
