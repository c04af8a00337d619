-- See functions/expire_orphans.sql.
select queen_durable.expire_orphans($1, $2, $3)
