-- Promises: removes up to p_limit acts older than p_keep from the audit log, the oldest first. Returns how many went.
-- Locks: nothing of the verbs.
create or replace function queen.prune_audit(p_keep interval, p_limit integer default 1000) returns bigint
language sql volatile as $$
    with gone as (
        delete from queen.audit where id in (
            select a.id from queen.audit a where a.at < queen.clock() - p_keep order by a.at limit p_limit) returning 1
    )
    select count(*) from gone
$$;
