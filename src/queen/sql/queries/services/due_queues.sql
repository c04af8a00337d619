-- Queues with scheduled messages that are due: one probe of an index for each queue that has any.
with recursive scheduled as (
    (select s.queue_id from queen.scheduled_messages s order by s.queue_id limit 1)
     union all
    select (select s.queue_id from queen.scheduled_messages s where s.queue_id > l.queue_id order by s.queue_id limit 1)
      from scheduled l where l.queue_id is not null
)
select l.queue_id as id from scheduled l
 where exists (select from queen.scheduled_messages s where s.queue_id = l.queue_id and s.deliver_at <= queen.clock())
