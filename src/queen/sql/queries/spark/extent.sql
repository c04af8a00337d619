-- Promises: the range of pos the messages of the queues lie in now and how many there are (by arithmetic on seq), up to the horizon given.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, (j ->> 'to')::bigint as high
      from (select current_setting('queen.ask')::jsonb as j) s
)
select coalesce(min(f.pos), a.high) as low, coalesce(max(l.pos) + 1, a.high) as high, coalesce(sum(p.next_seq - p.first_seq), 0)::bigint as rows
  from ask a
  left join queen.partitions p on p.queue_id = any (a.queues) and p.next_seq > p.first_seq
  left join lateral (select m.pos from queen.messages m where m.partition_id = p.id order by m.seq limit 1) f on true
  left join lateral (select m.pos from queen.messages m where m.partition_id = p.id order by m.seq desc limit 1) l on true
 group by a.high
