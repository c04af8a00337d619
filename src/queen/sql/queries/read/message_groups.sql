-- How each known group stands to one message.
select c.consumer_group, c.last_consumed_seq >= $2 as consumed, c.retry_count,
       case when c.lease_id is not null and c.lease_expires_at > queen.clock() and c.batch_to >= $2 and c.last_consumed_seq < $2
             and c.batch_from <= $2 then c.lease_expires_at end as lease_expires_at
  from queen.partition_consumers c where c.partition_id = $1 order by c.consumer_group
