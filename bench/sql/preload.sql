-- Fills a queue directly: $2 partitions, $3 messages in all, spread evenly. Only for measuring at depth.
with made as (
    insert into queen.partitions (queue_id, name, next_seq, last_created_at)
    select q.id, 'p' || i, 1 + ($3::bigint / $2::bigint) + case when i <= $3::bigint % $2::bigint then 1 else 0 end, now()
      from queen.queues q, generate_series(1, $2::bigint) i where q.name = $1::text
    returning id, next_seq
)
insert into queen.messages (partition_id, seq, pos, id, created_at, transaction_id, payload)
select made.id, s, nextval('queen.message_pos'), gen_random_uuid(), now(), 'm' || s, $4::jsonb
  from made, generate_series(1, made.next_seq - 1) s
