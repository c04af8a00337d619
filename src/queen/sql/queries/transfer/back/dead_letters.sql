-- The dead letters of the target that nobody sent again.
select f.former_id, d.consumer_group, d.message_id, d.error_message, d.retry_count, d.created_at, d.failed_at
  from dead_letter_queue d join former_partitions f on f.partition_id = d.partition_id where d.redriven_at is null
