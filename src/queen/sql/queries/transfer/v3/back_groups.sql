-- The source knows groups that began since the cutover.
insert into consumer_groups_metadata (consumer_group, queue_name, subscription_mode, subscription_timestamp)
select b.consumer_group, b.queue_name, b.mode, case when b.mode <> 'all' then b.start_at end
  from back_groups b
 where b.consumer_group <> '__QUEUE_MODE__'
   and not exists (select from consumer_groups_metadata m where m.consumer_group = b.consumer_group
                      and (m.queue_name = b.queue_name or coalesce(m.queue_name, '') = ''))
   and not exists (select from partition_consumers c join partitions p on p.id = c.partition_id join queues q on q.id = p.queue_id
                    where q.name = b.queue_name and c.consumer_group = b.consumer_group)
