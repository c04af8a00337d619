-- Promises: copies messages handed out to live turns to the dead letters, with the error that put them there.
-- Locks: the caller holds the keys of the turns.
create or replace function queen_durable.bury_messages(
    p_tokens text[], p_instances text[], p_letters queen_durable.letter_row[], p_now bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    if cardinality(p_letters) = 0 then
        return;
    end if;
    insert into queen_durable.mailbox_dead_letters (id, queue, routing_key, body, attempts, error, dead_at)
    select m.id, m.queue, m.routing_key, m.body, m.attempts, d.error, p_now
    from unnest(p_letters) as d
    join queen_durable.mailbox_messages m on m.id = d.id
    where p_instances[d.turn] is not null and m.lock_token = p_tokens[d.turn];
end $$;
