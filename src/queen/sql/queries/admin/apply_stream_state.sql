-- The state operations of one cycle.
select * from queen.apply_stream_state($1, $2, $3, $4, $5, $6, $7)
