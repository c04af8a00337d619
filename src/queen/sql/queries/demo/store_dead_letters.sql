-- Promises: copies messages to the dead letters of a group, each with the error, the retries and the time it was given up.
-- Locks: nothing (inserts).
select sum(queen.dead_letter(d.queue_id, d.partition_id, d.consumer_group, array[d.seq], null, d.error, d.retries, false, d.failed_at))
  from (select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::integer[], $7::timestamptz[])
               x(queue_id, partition_id, consumer_group, seq, error, retries, failed_at)
         order by x.failed_at) d
