alter table queen.subscriptions drop column used_at;
alter table queen.partition_consumers drop column counted_to;
