-- These changes are in the target.
delete from queen_transfer.changes where id = any ($1::bigint[])
