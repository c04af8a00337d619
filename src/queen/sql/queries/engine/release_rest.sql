-- Gives back what lies behind a seq in each lease.
select * from queen.release_rest($1, $2, $3, $4)
