-- Promises: see queen.settled_time; and whether there are workflows in this database.
-- Locks: nothing.
select queen.settled_time() as until, to_regclass('queen_durable.executions') is not null as durable
