-- What code a key needs from now on.
update mailbox_keys set handler = :handler where queue = :queue and routing_key = :routing_key
