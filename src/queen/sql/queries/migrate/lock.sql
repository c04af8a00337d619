-- Take the right to migrate one schema ($1), held until the transaction ends.
-- Waits for another migration of the same schema, at most $2 milliseconds.
-- Locks: one transaction-level advisory lock.
with limits as materialized (
    select set_config('lock_timeout', $2, true)
)
select pg_advisory_xact_lock(hashtextextended('queen.migrate.' || $1, 0))
from limits
