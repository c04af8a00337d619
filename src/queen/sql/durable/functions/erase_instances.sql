-- Promises: deletes root instances with all their descendants, and children they scheduled that do not exist yet: history, executions,
--   messages of both queues, locks, key-values. A turn that is under way cannot be committed afterwards. Raises QD002 when a
--   child appeared meanwhile, so that none is orphaned; the caller tries again.
-- Locks: the keys of all of them, in key order; a turn being committed is waited for.
create or replace function queen_durable.erase_instances(p_roots text[])
returns table (instances bigint, executions bigint, events bigint, messages bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_tree   text[] := queen_durable.family_of(p_roots);
    v_unborn text[] := queen_durable.unborn_children(v_tree);
    v_all    text[] := v_tree || v_unborn;
    v_more   bigint;
begin
    perform queen_durable.lock_keys(v_all);
    if not (queen_durable.family_of(p_roots) <@ v_tree)
       or not (queen_durable.unborn_children(v_tree) <@ v_all) then
        raise exception 'a child appeared during the deletion' using errcode = 'QD002';
    end if;
    delete from queen_durable.mailbox_messages m where m.queue = 'orchestrator' and m.routing_key = any (v_all);
    get diagnostics messages = row_count;
    delete from queen_durable.mailbox_keys k where k.queue = 'orchestrator' and k.routing_key = any (v_all);
    delete from queen_durable.work_items w where w.instance = any (v_all);
    get diagnostics v_more = row_count;
    messages := messages + v_more;
    delete from queen_durable.places p where p.instance = any (v_all);
    delete from queen_durable.kv_store s where s.instance = any (v_all);
    delete from queen_durable.kv_delta d where d.instance = any (v_all);
    delete from queen_durable.mailbox_dedup d where d.instance = any (v_all);
    delete from queen_durable.history h where h.instance = any (v_tree);
    get diagnostics events = row_count;
    delete from queen_durable.executions e where e.instance = any (v_tree);
    get diagnostics executions = row_count;
    delete from queen_durable.instances i where i.instance = any (v_tree);
    get diagnostics instances = row_count;
    return next;
end $$;
