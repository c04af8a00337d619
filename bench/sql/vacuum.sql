-- Settle the tables before measuring.
vacuum (analyze) queen.messages, queen.partitions, queen.partition_consumers
