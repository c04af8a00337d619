-- Promises: X such that every message with pos < X is committed and visible to any later snapshot, and no message below X will ever
--   appear. Never lower than before. Stored durably before the caller sees it (the caller must commit, with synchronous_commit on,
--   before using it): after a crash PostgreSQL may hand out sequence values again that were never made durable. The first call after
--   a takeover notes how far the horizon was that came from the server before: everything below it came too.
-- Locks: the one row of queen.horizon. Reads pg_locks for announced transactions.
create or replace function queen.advance_horizon() returns bigint
language plpgsql volatile as $$
declare
    v_known    bigint;
    v_last     bigint;
    v_oldest   bigint;
    v_timeline integer := queen.timeline();
    v_before   integer;
begin
    perform set_config('synchronous_commit', 'on', true);
    select position, timeline into v_known, v_before from queen.horizon for update;
    if v_before <> v_timeline then
        insert into queen.takeovers (timeline, position, noted_at) values (v_before, v_known, queen.clock())
            on conflict (timeline) do update set position = excluded.position, noted_at = excluded.noted_at;
    end if;
    -- The order matters: whoever announces after this line takes a higher pos than v_last.
    v_last := coalesce(pg_sequence_last_value('queen.message_pos'), 0);
    select min(v_last - ((v_last - l.objid::bigint) & 4294967295)) into v_oldest
      from pg_locks l
     where l.locktype = 'advisory' and l.classid = 1364542789 and l.objsubid = 2
       and l.database = (select oid from pg_database where datname = current_database());
    v_last := greatest(v_known, least(v_last, coalesce(v_oldest, v_last)) + 1);
    if v_last > v_known or v_before is distinct from v_timeline then
        update queen.horizon set position = v_last, timeline = v_timeline;
    end if;
    return v_last;
end $$;
