-- Promises: the turns whose lock is live (those that have an instance), each beside its instance.
-- Locks: nothing.
create or replace function queen_durable.described_turns(p_instances text[], p_turns queen_durable.turn_row[])
returns table (
    instance text, n bigint, execution_id integer, name text, version text, parent text, trace_id text, status text,
    output text, pinned_version bigint, told_status boolean, custom_status text, kv_cleared boolean
)
language sql immutable as $$
    select p_instances[turn.n], turn.n, turn.execution_id, turn.name, turn.version, turn.parent, turn.trace_id,
           turn.status, turn.output, turn.pinned_version, turn.told_status, turn.custom_status, turn.kv_cleared
    from unnest(p_turns) with ordinality
        as turn (token, execution_id, name, version, parent, trace_id, status, output, pinned_version, told_status,
                 custom_status, kv_cleared, owner, n)
    where p_instances[turn.n] is not null
$$;
