-- The new schema waits under a name of its own. Its triggers are off until then: their functions speak of the schema queen.
alter table queen.partitions disable trigger user;
alter table queen.partition_consumers disable trigger user;
alter schema queen rename to queen_next
