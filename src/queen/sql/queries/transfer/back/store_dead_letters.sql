-- The dead letters of the source are those that arrived, where their message is still there; those it had keep their rows.
delete from dead_letter_queue d
 where not exists (select from back_dead_letters b where b.message_id = d.message_id and b.consumer_group = coalesce(d.consumer_group, '__QUEUE_MODE__'));
insert into dead_letter_queue (message_id, partition_id, consumer_group, error_message, retry_count, original_created_at, failed_at)
select b.message_id, b.former_id, b.consumer_group, b.error_message, b.retry_count, b.created_at, b.failed_at
  from back_dead_letters b join messages m on m.id = b.message_id
 where not exists (select from dead_letter_queue d where d.message_id = b.message_id and coalesce(d.consumer_group, '__QUEUE_MODE__') = b.consumer_group)
