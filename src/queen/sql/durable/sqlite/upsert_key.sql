-- Makes a key ready from :visible_at unless it already is, or is locked (its release will look at its messages).
insert into mailbox_keys (queue, routing_key, ready_at)
values (:queue, :routing_key, :visible_at)
on conflict (queue, routing_key) do update set ready_at = excluded.ready_at
where mailbox_keys.lock_token is null
  and (mailbox_keys.ready_at is null or mailbox_keys.ready_at > excluded.ready_at)
