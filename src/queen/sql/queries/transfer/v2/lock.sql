-- Nobody writes to the source until this transaction ends; who only reads goes on. In the order in
-- which writers take them, for the most part: a table is locked before those its foreign keys point at.
lock table partition_leases, partition_cursors, messages_status, dead_letter_queue, messages, consumer_groups, partitions, queues in exclusive mode
