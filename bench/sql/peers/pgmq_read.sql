-- A batch, hidden for a minute.
select msg_id, message from pgmq.read('bench', 60, $1)
