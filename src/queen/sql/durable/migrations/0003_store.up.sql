-- What a key or an activity needs to be handled, whose memory has an instance, messages that can be withdrawn, held-back keys.

-- handler: name@version of the instance's code, the name alone while any version will do, empty while nothing is known.
-- owner: the worker that committed the last turn and may still have the instance in memory.
-- held_until: from when an abandoned key may be handed out, whatever arrives for it meanwhile.
alter table queen_durable.mailbox_keys
    add column handler text not null default '',
    add column owner text,
    add column held_until bigint;

update queen_durable.mailbox_keys k
set handler = i.name || '@' || i.version
from queen_durable.instances i
where k.queue = 'orchestrator' and i.instance = k.routing_key;

update queen_durable.mailbox_keys k
set handler = opener.name
from (
    select distinct on (m.routing_key) m.routing_key,
           body.message ->> 'name' || coalesce('@' || (body.message ->> 'version'), '') as name
    from queen_durable.mailbox_messages m
    cross join lateral (select convert_from(m.body, 'UTF8')::jsonb as message) as body
    where m.queue = 'orchestrator' and m.kind in ('StartMessage', 'ContinueAsNewMessage')
    order by m.routing_key, m.kind, m.order_at, m.id
) as opener
where k.queue = 'orchestrator' and k.routing_key = opener.routing_key;

drop index queen_durable.mailbox_keys_ready;
create index mailbox_keys_ready on queen_durable.mailbox_keys (queue, handler, ready_at) where ready_at is not null;

-- Keys whose messages wait for an instance that does not exist.
create index mailbox_keys_orphans on queen_durable.mailbox_keys (queue, routing_key)
    where handler = '' and ready_at is null;

-- name: by which the sender can withdraw a message of a key.
alter table queen_durable.mailbox_messages add column name text;
create index mailbox_messages_name on queen_durable.mailbox_messages (queue, routing_key, name) where name is not null;

alter table queen_durable.work_items add column name text not null default '';
update queen_durable.work_items set name = coalesce(body::jsonb ->> 'name', '');
drop index queen_durable.work_items_ready;
drop index queen_durable.work_items_tag;
create index work_items_ready on queen_durable.work_items (name, priority desc, ready_at, id);
create index work_items_tag on queen_durable.work_items (name, tag, priority desc, ready_at, id);

-- Which code live workers have: what nobody has announced for a while is unknown to all of them.
create table queen_durable.handlers (
    queue   text not null,
    name    text not null,
    seen_at bigint not null,
    primary key (queue, name)
);

-- What one call hands over, row by row. sender and turn: the number of the turn or result in the same call, from 1.
create type queen_durable.turn_row as (
    token text, execution_id integer, name text, version text, parent text, trace_id text, status text, output text,
    pinned_version bigint, told_status boolean, custom_status text, kv_cleared boolean, owner text
);
create type queen_durable.event_row as (turn integer, id integer, kind text, data text);
create type queen_durable.value_row as (turn integer, key text, value text, updated_at bigint);
create type queen_durable.task_row as (
    turn integer, instance text, execution_id integer, activity_id integer, name text, session_id text, tag text,
    priority integer, body text
);
create type queen_durable.activity_row as (turn integer, instance text, execution_id integer, activity_id integer);
create type queen_durable.message_row as (
    sender integer, key text, kind text, name text, handler text, body bytea, visible_at bigint
);
create type queen_durable.withdrawal_row as (turn integer, name text);
create type queen_durable.letter_row as (turn integer, id bigint, error text);
create type queen_durable.push_row as (
    sender integer, queue text, partition text, payload text, transaction_id text, trace_id text, deliver_at bigint,
    parent_id text
);

-- What a fetch asks for. Null handlers, names or tags: any. unknown_ms: only what was ready for so long and whose
-- name no worker has announced since.
create type queen_durable.wanted_instances as (
    most integer, lock_ms bigint, lows bigint[], highs bigint[], handlers text[], unknown_ms bigint, owner text
);
create type queen_durable.wanted_tasks as (
    most integer, lock_ms bigint, names text[], unknown_ms bigint, tags text[], owner text, session_ms bigint,
    max_sessions integer
);
