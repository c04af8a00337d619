-- Sends messages to instances; see functions/enqueue_messages.sql.
select accepted, visible_at from queen_durable.enqueue_messages($1, $2, $3, $4, $5, $6)
