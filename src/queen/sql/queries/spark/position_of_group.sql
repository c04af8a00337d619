-- Promises: the least pos of the messages that the group has not passed; null when it has passed all.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, j ->> 'group' as name
      from (select current_setting('queen.ask')::jsonb as j) s
)
select min(f.pos) as pos,
       (select count(*) from queen.subscriptions s, ask b where s.queue_id = any (b.queues) and s.consumer_group = b.name) as known
  from ask a
  join queen.partitions p on p.queue_id = any (a.queues)
  left join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = a.name
 cross join lateral (select m.pos from queen.messages m
                      where m.partition_id = p.id and m.seq > coalesce(c.last_consumed_seq, 0) order by m.seq limit 1) f
