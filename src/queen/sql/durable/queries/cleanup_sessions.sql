-- Forgets expired sessions that no queued item needs.
with gone as (
    delete from queen_durable.sessions s
    where s.locked_until <= queen_durable.clock_ms($1)
      and not exists (select from queen_durable.work_items w where w.session_id = s.session_id)
    returning 1
)
select count(*) from gone
