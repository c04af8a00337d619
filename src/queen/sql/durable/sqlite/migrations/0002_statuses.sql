-- Cancelled has a name of its own.
update executions set status = 'Cancelled' where status = 'Failed' and output like 'canceled: %';

pragma user_version = 2;
