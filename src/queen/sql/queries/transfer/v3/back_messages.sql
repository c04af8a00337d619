-- Appends what arrived to the partitions of the source. There the order is (created_at, id): where times are equal or behind the last
-- one, each is a microsecond after the one before.
insert into messages (id, transaction_id, trace_id, partition_id, payload, created_at, is_encrypted, producer_sub)
select b.id, b.transaction_id, b.trace_id, b.former_id, b.payload,
       greatest(l.created_at, max(b.created_at - b.place * interval '1 microsecond') over (partition by b.former_id order by b.seq))
       + b.place * interval '1 microsecond', b.is_encrypted, b.producer_sub
  from (select x.*, row_number() over (partition by x.former_id order by x.seq) as place
          from back_messages x where not exists (select from messages m where m.id = x.id)) b
  join partitions p on p.id = b.former_id
  left join lateral (select m.created_at from messages m where m.partition_id = b.former_id order by m.created_at desc, m.id desc limit 1) l on true
    on conflict (id) do nothing;
truncate back_messages
