-- From when the longest-waiting key of a queue may be handed out.
select min(ready_at) from mailbox_keys where queue = :queue
