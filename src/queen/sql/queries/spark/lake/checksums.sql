-- Promises: for each partition asked for, as of one moment: its first seq, and how many of its messages lie below a pos, with a checksum
--   that does not depend on their order: the sum of the first 60 bits of a hash of each.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'partitions')::bigint) as partitions, (j ->> 'to')::bigint as high
      from (select current_setting('queen.ask')::jsonb as j) s
)
select p.id as partition_id, p.first_seq, count(m.seq) as n,
       coalesce(sum(('x' || substr(md5(concat_ws(':', m.id, m.seq, coalesce(m.transaction_id, m.id::text),
                                                 (extract(epoch from m.created_at) * 1000000)::bigint, m.payload)), 1, 15))::bit(60)::bigint)
                filter (where m.seq is not null), 0)::text as checksum
  from ask a
  join queen.partitions p on p.id = any (a.partitions)
  left join queen.messages m on m.partition_id = p.id and m.seq >= p.first_seq and m.pos < a.high
 group by p.id, p.first_seq
 order by p.id
