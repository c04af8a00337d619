-- Extends sessions of owners that are live and were active within $3 ms.
with renewed as (
    update queen_durable.sessions
    set locked_until = queen_durable.clock_ms($4) + $2
    where owner = any ($1)
      and locked_until > queen_durable.clock_ms($4)
      and last_activity_at > queen_durable.clock_ms($4) - $3
    returning 1
)
select count(*) from renewed
