drop table queen.former_partitions;
