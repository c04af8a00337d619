-- Notes an event in the life of a message.
select queen.record_trace($1, $2, $3, $4, $5, $6) as trace_id
