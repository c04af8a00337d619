-- Makes the source of v3 tell what changes, and where groups without a cursor start. Takes a short lock on each table that waits for
-- writers under way, so that every later write is told of.
create or replace view queen_transfer.starts as
select p.id as partition_id, m.consumer_group::text,
       (array_agg(case when lower(m.subscription_mode) like 'new%' then coalesce(m.subscription_timestamp, m.created_at)
                       when lower(m.subscription_mode) <> 'all' then m.subscription_timestamp end
                  order by coalesce(m.queue_name, '') <> '' desc, coalesce(m.partition_name, '') <> '' desc, m.created_at, m.id))[1] as start_at
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
  join queen.consumer_groups_metadata m
    on case when coalesce(m.queue_name, '') <> '' then m.queue_name = q.name and coalesce(m.partition_name, '') in ('', p.name)
            else coalesce(m.namespace, '') || coalesce(m.task, '') <> ''
                 and coalesce(m.namespace, '') in ('', q.namespace) and coalesce(m.task, '') in ('', q.task) end
 group by p.id, m.consumer_group;

select queen_transfer.watch('partition_consumers', 'tell_consumers');
select queen_transfer.watch('consumer_groups_metadata', 'tell_structure');
select queen_transfer.watch('message_traces', 'tell_traces');
