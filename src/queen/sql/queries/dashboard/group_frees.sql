-- What a group alone holds on to: messages that every other group of the queue has passed; and its dead letters.
select coalesce(sum(greatest(least(o.passed, p.next_seq - 1) - greatest(c.last_consumed_seq, p.first_seq - 1), 0)), 0)::bigint as held,
       count(*) as cursors,
       (select count(*) from queen.dead_letter_queue d where d.queue_id = $1 and d.consumer_group = $2 and d.redriven_at is null) as dead_letters
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
 cross join lateral (select coalesce(min(x.last_consumed_seq), p.next_seq - 1) as passed from queen.partition_consumers x
                      where x.partition_id = c.partition_id and x.consumer_group <> $2) o
 where c.queue_id = $1 and c.consumer_group = $2
