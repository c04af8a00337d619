-- Whether this session may change the copy now: one command at a time. The session's end lets go of it, whatever ends it.
select pg_try_advisory_lock(hashtextextended('queen_transfer', 0))
