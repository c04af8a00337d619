-- What is not as it should be, and what becomes of it.
select count(*) as count, 'messages without a payload' as what, 'carried with the payload null' as becomes from messages where payload is null
union all
select count(*), 'partitions without a queue', 'left out, with their messages' from partitions where queue_id is null
union all
select coalesce(sum(n - 1), 0)::bigint, 'messages whose transaction id is used before in the partition', 'the first keeps it; the others get #<message id> behind it'
  from (select count(*) as n from messages where transaction_id is not null group by partition_id, transaction_id having count(*) > 1) d
union all
select count(*), 'messages without a transaction id', 'their own id stands for it' from messages where transaction_id is null
union all
select count(*), 'status rows of queue mode with both null and __QUEUE_MODE__', 'finished only if both say so'
  from messages_status s where s.consumer_group is null and exists (select from messages_status x where x.message_id = s.message_id and x.consumer_group = '__QUEUE_MODE__')
union all
select count(*), 'messages unfinished by their status, yet not after the cursor', 'delivered: the cursor stays before them, what is finished after them is skipped'
  from messages_status s join messages m on m.id = s.message_id
  join partition_cursors c on c.partition_id = m.partition_id and c.consumer_group = coalesce(s.consumer_group, '__QUEUE_MODE__')
 where s.status in ('pending', 'processing') and (m.created_at, m.id) <= (c.last_consumed_created_at, c.last_consumed_id)
union all
select count(*), 'messages failed by their status without a dead letter', 'become dead letters with the error of the status row'
  from messages_status s where s.status in ('failed', 'dead_letter')
   and not exists (select from dead_letter_queue d where d.message_id = s.message_id
                      and coalesce(d.consumer_group, '__QUEUE_MODE__') = coalesce(s.consumer_group, '__QUEUE_MODE__'))
union all
select count(*), 'dead letters whose message is gone', 'carried without a payload'
  from dead_letter_queue d where not exists (select from messages m where m.id = d.message_id)
union all
select count(*), 'leases of groups without a cursor', 'carried from the first unfinished message on'
  from partition_leases l where l.released_at is null and l.lease_expires_at > now()
   and not exists (select from partition_cursors c where c.partition_id = l.partition_id and c.consumer_group = l.consumer_group)
union all
select count(*), 'rows of retention history', 'left out: they describe messages that are gone' from retention_history
