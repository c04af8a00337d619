-- When a start message of an instance that does not exist yet becomes visible.
select min(visible_at) from mailbox_messages
where queue = :queue and routing_key = :routing_key and kind in ('StartMessage', 'ContinueAsNewMessage')
