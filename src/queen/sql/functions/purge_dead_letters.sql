-- Promises: removes the dead letters that match (see queen.select_dead_letters), redriven or not; returns how many. p_dry_run: only counts.
--   Each is looked at once, whatever the statistics say (R14).
-- Locks: the rows removed.
create or replace function queen.purge_dead_letters(
    p_ids bigint[] default null, p_queue text default null, p_group text default null, p_error text default null,
    p_before timestamptz default null, p_dry_run boolean default false
) returns bigint
language plpgsql volatile set enable_seqscan = off set jit = off as $$
declare
    v_count bigint;
begin
    if p_dry_run then
        select count(*) into v_count from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, true);
        return v_count;
    end if;
    delete from queen.dead_letter_queue d
     where d.id = any (array(select s.id from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, true) s));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
