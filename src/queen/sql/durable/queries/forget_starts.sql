-- Forgets starts that hold nobody back any more.
select queen_durable.forget_starts($1, $2)
