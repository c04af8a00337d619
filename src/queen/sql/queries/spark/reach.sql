-- Promises: the first message of the queues in [from, to) and how far from there at most `rows` of them go; nulls when there is none.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, (j ->> 'from')::bigint as low,
           (j ->> 'to')::bigint as high, (j ->> 'rows')::bigint as most
      from (select current_setting('queen.ask')::jsonb as j) s
), first as materialized (
    select queen.first_position(a.queues, a.low, a.high) as pos from ask a
)
select f.pos as first,
       case when f.pos is null then null
            when a.most is null then a.high
            else queen.reach_position(a.queues, f.pos, a.high, a.most) end as reach
  from ask a, first f
