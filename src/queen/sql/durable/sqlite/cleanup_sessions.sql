-- Forgets expired sessions that no queued item needs.
delete from sessions
where locked_until <= :now
  and not exists (select 1 from work_items where work_items.session_id = sessions.session_id)
