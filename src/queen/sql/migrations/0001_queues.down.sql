drop table queen.skips;
drop table queen.messages;
drop sequence queen.message_pos;
drop table queen.partitions;
drop function queen.remove_messages_of_partitions();
drop table queen.queues;
