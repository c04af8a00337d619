-- When the next item that is locked or delayed comes back, or the next session lapses, after :now.
select min(due) from (
    select min(ready_at) as due from work_items where ready_at > :now
    union all
    select min(sessions.locked_until) from sessions
    where sessions.locked_until > :now
      and exists (select 1 from work_items where work_items.session_id = sessions.session_id)
)
