-- Promises: the least pos of the messages of the queues that were created at or after the time given; null when there is none.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, (j ->> 'time')::timestamptz as time
      from (select current_setting('queen.ask')::jsonb as j) s
)
select min(f.pos) as pos
  from ask a
  join queen.partitions p on p.queue_id = any (a.queues) and p.last_created_at >= a.time
 cross join lateral (select m.pos from queen.messages m
                      where m.partition_id = p.id and m.seq > queen.seq_at(p.id, a.time) order by m.seq limit 1) f
