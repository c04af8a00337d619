-- Makes a key ready from :visible_at unless it already is, is locked (its release will look at its messages), or is held back. A
-- start (:handler) says what code a key needs that nothing is known of.
insert into mailbox_keys (queue, routing_key, ready_at, handler)
values (:queue, :routing_key, :visible_at, coalesce(:handler, ''))
on conflict (queue, routing_key) do update
set ready_at = case
        when mailbox_keys.lock_token is not null then mailbox_keys.ready_at
        else min(
            coalesce(mailbox_keys.ready_at, max(excluded.ready_at, coalesce(mailbox_keys.held_until, 0))),
            max(excluded.ready_at, coalesce(mailbox_keys.held_until, 0)))
    end,
    handler = case when mailbox_keys.handler = '' then excluded.handler else mailbox_keys.handler end
where (mailbox_keys.lock_token is null and (
        mailbox_keys.ready_at is null
        or mailbox_keys.ready_at > max(excluded.ready_at, coalesce(mailbox_keys.held_until, 0))
    ))
    or (mailbox_keys.handler = '' and excluded.handler <> '')
