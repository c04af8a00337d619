-- What became of a message in the dead letters.
select d.id, d.consumer_group, d.error_message, d.failed_at, d.retry_count, d.redriven_at, d.redriven_as
  from queen.dead_letter_queue d where d.partition_id = $1 and d.seq = $2 order by d.id
