-- What a key or an activity needs to be handled, whose memory has an instance, messages that can be withdrawn, held-back keys.

-- handler: name@version of the instance's code, the name alone while any version will do, empty while nothing is known.
-- owner: the worker that committed the last turn and may still have the instance in memory.
-- held_until: from when an abandoned key may be handed out, whatever arrives for it meanwhile.
alter table mailbox_keys add column handler text not null default '';
alter table mailbox_keys add column owner text;
alter table mailbox_keys add column held_until integer;

update mailbox_keys
set handler = coalesce(
    (select name || '@' || version from instances where instance = mailbox_keys.routing_key), '')
where queue = 'orchestrator';

update mailbox_keys
set handler = coalesce((
    select json_extract(opener.body, '$.name') || coalesce('@' || json_extract(opener.body, '$.version'), '')
    from mailbox_messages as opener
    where opener.queue = mailbox_keys.queue and opener.routing_key = mailbox_keys.routing_key
      and opener.kind in ('StartMessage', 'ContinueAsNewMessage')
    order by opener.kind, opener.order_at, opener.id
    limit 1
), handler)
where queue = 'orchestrator';

drop index mailbox_keys_ready;
create index mailbox_keys_ready on mailbox_keys (queue, ready_at, handler) where ready_at is not null;

-- Keys whose messages wait for an instance that does not exist.
create index mailbox_keys_orphans on mailbox_keys (queue, routing_key) where handler = '' and ready_at is null;

-- name: by which the sender can withdraw a message of a key.
alter table mailbox_messages add column name text;
create index mailbox_messages_name on mailbox_messages (queue, routing_key, name) where name is not null;

alter table work_items add column name text not null default '';
update work_items set name = coalesce(json_extract(body, '$.name'), '');

-- Which code live workers have: what nobody has announced for a while is unknown to all of them.
create table handlers (
    queue text not null,
    name text not null,
    seen_at integer not null,
    primary key (queue, name)
) without rowid;

pragma user_version = 3;
