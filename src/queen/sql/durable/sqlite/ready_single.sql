-- The longest-visible message without routing key.
select id, visible_at from mailbox_messages
where queue = :queue and routing_key is null and visible_at <= :now
order by visible_at, id
limit 1
