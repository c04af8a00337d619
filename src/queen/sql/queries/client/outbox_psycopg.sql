-- Stores one message in the caller's own transaction.
select queen.push(%s, %s, %s::text::jsonb, %s, %s, %s, %s) as id
