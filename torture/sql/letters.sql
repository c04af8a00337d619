-- The dead letters.
select partition_id, consumer_group, seq, transaction_id as name, evicted, error_message as error, redriven_as::text as redriven_as,
       extract(epoch from failed_at)::float8 as at
  from queen.dead_letter_queue order by id
