-- Promises: the messages asked for, packed: one row for each piece of the page, each column all its values end to end, so that no program on
--   the way handles them one by one. A piece is a range of pos, [from, to) in steps of `piece`, with the messages of the queues in order
--   of pos; or the ranges of seq of some partitions (`lanes`: partition, from, to, piece), in order. Only messages created in
--   [since, until) and at or after the seq given for their partition (`starts`), where given; only the columns asked for. Texts come with
--   their sizes, and what is null is left out: `flags` tells (1 sealed, 2 transaction_id, 4 trace_id, 8 parent_id, 16 producer_sub).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           j -> 'starts' as starts, j -> 'columns' ?| '{id,transaction_id}' as id, j -> 'columns' ? 'seq' as seq,
           j -> 'columns' ? 'transaction_id' as transaction_id, j -> 'columns' ? 'trace_id' as trace_id, j -> 'columns' ? 'parent_id' as parent_id,
           j -> 'columns' ? 'payload' as payload, j -> 'columns' ? 'created_at' as created_at, j -> 'columns' ? 'producer_sub' as producer_sub
      from (select current_setting('queen.ask')::jsonb as j) s
), lanes as materialized (
    select (l.j ->> 0)::bigint as id, (l.j ->> 1)::bigint as low, (l.j ->> 2)::bigint as high, (l.j ->> 3)::integer as piece, l.place
      from (select current_setting('queen.ask')::jsonb as j) s, jsonb_array_elements(s.j -> 'lanes') with ordinality l(j, place)
), pieces as materialized (
    select null::integer as number, p.low, least(p.low + (s.j ->> 'piece')::bigint, (s.j ->> 'to')::bigint) as high
      from (select current_setting('queen.ask')::jsonb as j) s,
           generate_series((s.j ->> 'from')::bigint, (s.j ->> 'to')::bigint - 1, (s.j ->> 'piece')::bigint) p(low)
     union all
    select distinct piece, null::bigint, null::bigint from lanes
), partitions as materialized (
    select p.id
      from (select array(select jsonb_array_elements_text(current_setting('queen.ask')::jsonb -> 'queues')::bigint) as queues) s
      join queen.partitions p on p.queue_id = any (s.queues)
)
select r.*
  from (select * from pieces order by low, number) c
 cross join lateral (
    select count(*) as rows,
           string_agg(int8send(m.pos), '') as pos,
           string_agg(int8send(m.partition_id), '') as partition_id,
           string_agg(int2send((m.is_encrypted::integer + 2 * (m.transaction_id is not null)::integer + 4 * (m.trace_id is not null)::integer
                                + 8 * (m.parent_id is not null)::integer + 16 * (m.producer_sub is not null)::integer)::smallint), '') as flags,
           string_agg(int8send(m.seq), '') filter (where (select seq from ask)) as seq,
           string_agg(uuid_send(m.id), '') filter (where (select id from ask)) as id,
           string_agg(timestamptz_send(m.created_at), '') filter (where (select created_at from ask)) as created_at,
           string_agg(uuid_send(m.trace_id), '') filter (where (select trace_id from ask)) as trace_id,
           string_agg(uuid_send(m.parent_id), '') filter (where (select parent_id from ask)) as parent_id,
           string_agg(int4send(octet_length(m.transaction_id)), '') filter (where (select transaction_id from ask)) as transaction_id_sizes,
           string_agg(m.transaction_id, '') filter (where (select transaction_id from ask)) as transaction_id,
           string_agg(int4send(octet_length(m.producer_sub)), '') filter (where (select producer_sub from ask)) as producer_sub_sizes,
           string_agg(m.producer_sub, '') filter (where (select producer_sub from ask)) as producer_sub,
           string_agg(int4send(octet_length(m.text)), '') as payload_sizes,
           string_agg(m.text, '') as payload
      from (select u.*, case when (select payload from ask) then u.payload::text end as text
              from ((select x.* from queen.messages x
                      where x.pos >= c.low and x.pos < c.high and (x.partition_id in (select id from partitions)) is true
                        and ((select starts from ask) is null
                             or x.seq >= coalesce(((select starts from ask) ->> x.partition_id::text)::bigint, 0))
                      order by x.pos)
                     union all
                    (select x.* from lanes l join queen.messages x on x.partition_id = l.id and x.seq >= l.low and x.seq < l.high
                      where l.piece = c.number
                      order by l.place, x.seq)) u
             where u.created_at >= (select since from ask) and u.created_at < (select until from ask)
            offset 0) m
    ) r
 where r.rows > 0
