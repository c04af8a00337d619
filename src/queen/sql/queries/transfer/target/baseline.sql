-- Remembers how everything stands at the cutover, for a rollback: what is still so then need not be written back.
drop table if exists queen_transfer.baseline, queen_transfer.baseline_partitions;
create table queen_transfer.baseline as
select partition_id, consumer_group, last_consumed_seq, lease_id, lease_expires_at, batch_to, retry_count, total_messages_consumed
  from queen_next.partition_consumers;
create table queen_transfer.baseline_partitions as select id, first_seq from queen_next.partitions;
update queen_transfer.state
   set last_pos = (select last_value from queen_next.message_pos)
