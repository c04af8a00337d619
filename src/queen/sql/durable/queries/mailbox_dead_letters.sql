-- Messages put aside, oldest first.
select id, routing_key, body, attempts, error from queen_durable.mailbox_dead_letters
where queue = $1 order by id limit $2
