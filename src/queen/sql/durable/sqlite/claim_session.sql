-- Claims a free session, or notes that its owner is active.
insert into sessions (session_id, owner, locked_until, last_activity_at)
values (:session_id, :owner, :locked_until, :now)
on conflict (session_id) do update
set owner = excluded.owner,
    locked_until = max(excluded.locked_until, case when owner = excluded.owner then locked_until else 0 end),
    last_activity_at = excluded.last_activity_at
