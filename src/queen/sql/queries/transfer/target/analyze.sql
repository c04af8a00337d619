-- The planner knows what was copied.
analyze queues, partitions, messages, partition_consumers, dead_letter_queue, subscriptions, former_partitions
