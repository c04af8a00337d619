-- Promises: the messages of one partition below a pos, each with its hash; and, with no hash, those deleted by hand.
-- Locks: nothing.
with ask as materialized (
    select (j ->> 'partition')::bigint as partition, (j ->> 'to')::bigint as high from (select current_setting('queen.ask')::jsonb as j) s
)
select m.seq, m.id::text as id,
       ('x' || substr(md5(concat_ws(':', m.id, m.seq, coalesce(m.transaction_id, m.id::text),
                                    (extract(epoch from m.created_at) * 1000000)::bigint, m.payload)), 1, 15))::bit(60)::bigint as hash
  from ask a join queen.messages m on m.partition_id = a.partition and m.pos < a.high
 union all
select s.seq, null, null from ask a join queen.skips s on s.partition_id = a.partition and s.consumer_group = '*'
 order by 1
