alter table queen.partition_consumers drop column counted_to;
