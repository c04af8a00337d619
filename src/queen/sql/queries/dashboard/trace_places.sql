-- Where the messages of a trace are, at most $2.
select m.partition_id, m.seq from queen.messages m where m.trace_id = $1 limit $2
