-- Keys that may be handed out now, longest-waiting first.
select routing_key, ready_at
from mailbox_keys
where queue = :queue and ready_at <= :now
order by ready_at, routing_key
limit :limit
