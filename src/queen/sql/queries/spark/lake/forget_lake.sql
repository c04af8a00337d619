-- Promises: retention no longer waits for a lake, and what analyses remembered of it is gone.
-- Locks: its rows.
with ask as materialized (
    select (current_setting('queen.ask')::jsonb ->> 'lake')::uuid as lake
), remembered as (
    delete from queen.pipeline_state s using ask a where s.lake = a.lake
), days as (
    delete from queen.pipeline_days d using ask a where d.lake = a.lake
)
delete from queen.archive_positions p using ask a where p.lake = a.lake returning p.source
