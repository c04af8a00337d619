-- Messages put aside, oldest first.
select id, routing_key, body, attempts, error from mailbox_dead_letters where queue = :queue order by id limit :limit
