-- Promises: what identifies the database, and how far its horizon is known here (a standby may lag).
-- Locks: nothing.
select queen.database_identity() as database, (select position from queen.horizon) as pos
