-- The old way of handing out: a status row per message.
insert into bare.messages_status (message_id, consumer_group, status, lease_expires_at)
select i, 'g', 'processing', now() + interval '5 minutes' from unnest($1::uuid[]) i
