-- Makes the source of v2 tell what changes, and where groups without a cursor start. Takes a short lock on each table that waits for
-- writers under way, so that every later write is told of.
create or replace view queen_transfer.starts as
select p.id as partition_id, g.name::text as consumer_group, case when lower(g.subscription_mode) like 'new%' then g.created_at end as start_at
  from queen.partitions p join queen.consumer_groups g on g.queue_id = p.queue_id;

create or replace function queen_transfer.tell_statuses() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind, partition_id, consumer_group)
    select distinct 'consumers', m.partition_id, coalesce(t.consumer_group, '__QUEUE_MODE__')
      from touched t join queen.messages m on m.id = t.message_id;
    return null;
end $$;

select queen_transfer.watch('messages_status', 'tell_statuses');
select queen_transfer.watch('partition_cursors', 'tell_consumers');
select queen_transfer.watch('partition_leases', 'tell_consumers');
select queen_transfer.watch('consumer_groups', 'tell_structure');
