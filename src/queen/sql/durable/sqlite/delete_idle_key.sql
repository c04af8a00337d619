-- Forgets a key that has no messages.
delete from mailbox_keys
where queue = :queue and routing_key = :routing_key
  and not exists (
    select 1 from mailbox_messages where queue = :queue and routing_key = :routing_key
  )
