alter table queen.subscriptions drop column used_at;
alter table queen.queues drop constraint queues_name_not_empty;
alter table queen.partition_consumers drop column counted_to;
