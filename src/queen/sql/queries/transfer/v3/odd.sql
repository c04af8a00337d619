-- What is not as it should be, and what becomes of it.
select count(*) as count, 'messages without a payload' as what, 'carried with the payload null' as becomes from messages where payload is null
union all
select count(*), 'partitions without a queue', 'left out, with their messages' from partitions where queue_id is null
union all
select count(*), 'leases whose token is no UUID', 'carried with their expiry; the client that holds one cannot acknowledge it'
  from partition_consumers where lease_expires_at > now() and worker_id !~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
union all
select count(*), 'leases that name no message that is still there', 'carried for as many messages after the cursor as the batch had left'
  from partition_consumers c
 where c.worker_id is not null and c.lease_expires_at > now()
   and not exists (select from messages m where m.partition_id = c.partition_id
                      and m.id::text in (select coalesce(e->>'id', e->>'messageId', e #>> '{}')
                                           from jsonb_array_elements(case jsonb_typeof(c.message_batch) when 'array' then c.message_batch else '[]' end) e))
union all
select count(*), 'cursors at a message that is gone', 'carried: the group goes on with the first message after it'
  from partition_consumers c where c.last_consumed_created_at is not null and not exists (select from messages m where m.id = c.last_consumed_id)
union all
select count(*), 'dead letters after the cursor of their group', 'carried, and their message is delivered again, as the earlier version would'
  from dead_letter_queue d join messages m on m.id = d.message_id
  join partition_consumers c on c.partition_id = d.partition_id and c.consumer_group = d.consumer_group
 where (m.created_at, m.id) > (coalesce(c.last_consumed_created_at, '-infinity'), c.last_consumed_id)
union all
select count(*), 'queues with max_size and no max_queue_size', 'unlimited, as before: max_size was never enforced'
  from queues q where (to_jsonb(q)->>'max_size')::bigint > 0 and coalesce((to_jsonb(q)->>'max_queue_size')::bigint, 0) = 0
union all
select count(*), 'rows of retention history', 'left out: they describe messages that are gone' from retention_history
