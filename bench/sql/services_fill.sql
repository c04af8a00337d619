-- $2 partitions of queue $1, numbered from $6 on, with $3 messages each that are $4 seconds old; group bench has consumed them or not ($5).
with t as materialized (
    select q.id, q.max_wait_time_seconds as wait, queen.clock() - make_interval(secs => $4) as at from queen.queues q where q.name = $1
), born as (
    insert into queen.partitions (queue_id, name, next_seq, last_created_at, last_activity, oldest_at, idle_since)
    select t.id, 'p' || n, $3::bigint + 1, t.at, t.at, case when $3::bigint > 0 then t.at end, case when $3::bigint = 0 then t.at end
      from t, generate_series($6::bigint, $6::bigint + $2::bigint - 1) n
    returning id
), stored as (
    insert into queen.messages (partition_id, seq, pos, id, created_at, payload)
    select b.id, s, nextval('queen.message_pos'), gen_random_uuid(), t.at, '{"orderId": 123456, "note": "a message of a service"}'
      from t, born b, generate_series(1, $3::bigint) s
)
insert into queen.partition_consumers (partition_id, queue_id, consumer_group, last_consumed_seq, ready_at, evict_at)
select b.id, t.id, 'bench', case when $5::boolean then $3::bigint else 0 end, case when $3::bigint > 0 and not $5::boolean then t.at end,
       case when t.wait > 0 and $3::bigint > 0 and not $5::boolean then t.at + make_interval(secs => t.wait) end
  from t, born b
