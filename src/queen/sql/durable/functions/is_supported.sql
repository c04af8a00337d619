-- Promises: whether a runtime that can replay these versions may take an instance: one without a pinned version always; no bounds
--   at all (null): any.
-- Locks: nothing.
create or replace function queen_durable.is_supported(p_instance text, p_lows bigint[], p_highs bigint[]) returns boolean
language sql stable as $$
    select p_lows is null or not exists (
        select from queen_durable.instances i
        where i.instance = p_instance and i.pinned_version is not null and not exists (
            select from unnest(p_lows, p_highs) as bounds (low, high)
            where i.pinned_version between bounds.low and bounds.high
        )
    )
$$;
