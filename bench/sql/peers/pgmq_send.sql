-- The payloads of one call.
select pgmq.send_batch('bench', $1)
