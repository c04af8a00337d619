-- Promises: the messages with a pos in [from, to): their pos and id.
-- Locks: nothing.
with ask as materialized (
    select (j ->> 'from')::bigint as low, (j ->> 'to')::bigint as high from (select current_setting('queen.ask')::jsonb as j) s
)
select m.pos, m.id::text as id from ask a join queen.messages m on m.pos >= a.low and m.pos < a.high
