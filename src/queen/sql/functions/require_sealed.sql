-- Promises: raises ENCRYPTION_REQUIRED when an item for a queue with encryption on is not sealed. SQL never seals: the key stays out
--   of the database. A scheduled message that was accepted before encryption was switched on is delivered as it was taken.
-- Locks: nothing.
create or replace function queen.require_sealed(p_queue text[], p_id uuid[], p_lane integer[], p_encrypted boolean[]) returns void
language plpgsql stable as $$
declare
    v_queue text;
begin
    select q.name into v_queue
      from generate_subscripts(p_id, 1) i
      join queen.queues q on q.name = p_queue[coalesce(p_lane[i], 1)]
     where q.encryption_enabled and not coalesce(p_encrypted[i], false)
       and not exists (select from queen.scheduled_messages s where s.id = p_id[i])
     limit 1;
    if found then
        perform queen.raise_error('ENCRYPTION_REQUIRED', format(
            'queue %L takes encrypted payloads only; push through the broker or the SDK with QUEEN_ENCRYPTION_KEY set', v_queue));
    end if;
end $$;
