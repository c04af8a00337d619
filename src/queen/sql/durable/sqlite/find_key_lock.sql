-- The key a live token holds, and until when.
select routing_key, locked_until, queue from mailbox_keys
where lock_token = :token and locked_until > :now and (:queue is null or queue = :queue)
