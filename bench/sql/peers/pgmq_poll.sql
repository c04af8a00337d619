-- A message as soon as there is one, looked for by the server itself as often as it does by default.
select msg_id, message from pgmq.read_with_poll('bench', 60, $1, 5)
