-- Parked instances are found by looking at all of them again.
drop index queen_durable.executions_parked;
