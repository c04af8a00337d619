drop table queen.queue_credits;
drop table queen.scheduled_messages;
drop table queen.deliveries;
drop table queen.dead_letter_queue;
drop table queen.partition_consumers;
drop table queen.subscriptions;
