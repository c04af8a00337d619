-- The source knows groups that began since the cutover.
insert into consumer_groups (queue_id, name, subscription_mode, created_at)
select q.id, b.consumer_group, case when b.mode = 'new' then 'new' else 'all' end, b.created_at
  from back_groups b join queues q on q.name = b.queue_name
 where b.consumer_group <> '__QUEUE_MODE__'
    on conflict (queue_id, name) do nothing
