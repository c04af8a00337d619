-- The first message kept of each partition whose front was removed since the cutover; null: nothing is kept.
select f.former_id, n.id
  from partitions p
  join former_partitions f on f.partition_id = p.id
  left join queen_transfer.baseline_partitions b on b.id = p.id
  left join lateral (select m.id from messages m where m.partition_id = p.id order by m.seq limit 1) n on true
 where p.first_seq > coalesce(b.first_seq, 1)
