-- What autovacuum would do, now.
vacuum queen.partition_consumers, queen.partitions
