-- What waits for people is found at once, however many there are that do not.
create index executions_parked on queen_durable.executions (started_at, instance) where status = 'Parked';
