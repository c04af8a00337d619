-- Partitions from which a message was deleted by hand are few, and found without looking at the others.
create index partitions_with_skips on queen.partitions (id) where has_skips;
