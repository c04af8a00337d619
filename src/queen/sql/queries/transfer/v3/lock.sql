-- Nobody writes to the source until this transaction ends; who only reads goes on.
lock table queues, partitions, messages, partition_consumers, consumer_groups_metadata, dead_letter_queue, message_traces in exclusive mode
