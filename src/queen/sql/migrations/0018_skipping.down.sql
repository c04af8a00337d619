drop index queen.partitions_with_skips;
