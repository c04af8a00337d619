-- The pos of the last of at most $3 messages above $1 and below $2; null when there is none.
select max(m.pos) from (select x.pos from messages x where x.pos > $1 and x.pos < $2 order by x.pos limit $3) m
