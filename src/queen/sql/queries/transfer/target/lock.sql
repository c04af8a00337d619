-- Nobody writes to the target until this transaction ends.
lock table queen.queues, queen.partitions, queen.messages, queen.subscriptions, queen.partition_consumers, queen.skips, queen.dead_letter_queue,
           queen.scheduled_messages in exclusive mode
