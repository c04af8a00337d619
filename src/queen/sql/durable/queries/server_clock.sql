-- The clock that decides what is due.
select queen_durable.clock_ms(null)
