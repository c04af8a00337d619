-- Stores one message in the caller's own transaction.
select queen.push($1, $2, $3::text::jsonb, $4, $5, $6, $7) as id
