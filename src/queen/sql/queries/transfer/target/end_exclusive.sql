-- Others may change the copy again.
select pg_advisory_unlock(hashtextextended('queen_transfer', 0))
