-- Promises: raises ENCRYPTION_REQUIRED when a staged row for a queue with encryption on is not sealed.
-- Locks: nothing.
create or replace function queen.require_staged_sealed(p_stage text, p_stages bigint[], p_parts bigint[]) returns void
language plpgsql volatile as $$
declare
    v_queue text;
begin
    execute format($sql$
        select s.queue from queen.%I s join queen.queues q on q.name = s.queue
         where q.encryption_enabled and not s.is_encrypted and s.stage = any ($1) and s.part = any ($2) limit 1$sql$, p_stage)
       into v_queue using p_stages, p_parts;
    if v_queue is not null then
        perform queen.raise_error('ENCRYPTION_REQUIRED', format(
            'queue %L takes encrypted payloads only: set QUEEN_ENCRYPTION_KEY in the environment of the executors', v_queue));
    end if;
end $$;
