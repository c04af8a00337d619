-- Makes a stream query known.
select * from queen.register_stream($1, $2, $3, $4, $5)
