-- Nobody writes to the source until this transaction ends; who only reads goes on.
lock table queues, partitions, messages, messages_status, partition_cursors, partition_leases, consumer_groups, dead_letter_queue in exclusive mode
