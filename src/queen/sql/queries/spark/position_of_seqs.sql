-- Promises: the least pos of the messages at or after the seq given for each partition (from the first one where none is given); null when
--   there is none. And the position from which on no message lies before the seq given for its partition.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, j -> 'starts' as starts
      from (select current_setting('queen.ask')::jsonb as j) s
)
select min(f.pos) as pos, coalesce(max(b.pos), 0) + 1 as settled
  from ask a
  join queen.partitions p on p.queue_id = any (a.queues)
  left join lateral (select m.pos from queen.messages m
                      where m.partition_id = p.id and m.seq >= coalesce((a.starts ->> p.id::text)::bigint, 0) order by m.seq limit 1) f on true
  left join lateral (select m.pos from queen.messages m
                      where m.partition_id = p.id and m.seq < (a.starts ->> p.id::text)::bigint order by m.seq desc limit 1) b on true
