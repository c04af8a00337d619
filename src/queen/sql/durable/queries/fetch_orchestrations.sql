-- Locks instances; see functions/fetch_orchestrations.sql.
select * from queen_durable.fetch_orchestrations($1, $2, $3, $4, $5, true)
