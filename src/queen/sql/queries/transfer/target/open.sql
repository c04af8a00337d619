-- The copy becomes the schema queen. Its triggers are on again.
alter table queen_next.partitions enable trigger user;
alter table queen_next.partition_consumers enable trigger user;
alter schema queen_next rename to queen
