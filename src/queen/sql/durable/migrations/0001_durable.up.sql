-- Mailboxes, history and read models of durable instances. Times are milliseconds since 1970.

create schema if not exists queen_durable;

-- One row per (queue, routing key). The lock on this row hides every message of the key, present and future.
-- ready_at: from when the key may be handed out; the lock's expiry while locked; null when nothing waits.
create table queen_durable.mailbox_keys (
    queue        text not null,
    routing_key  text not null,
    ready_at     bigint,
    lock_token   text,
    locked_until bigint,
    primary key (queue, routing_key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

create index mailbox_keys_ready on queen_durable.mailbox_keys (queue, ready_at) where ready_at is not null;
create unique index mailbox_keys_token on queen_durable.mailbox_keys (lock_token) where lock_token is not null;

-- order_at keeps the order of arrival when an abandon moves visible_at.
-- locked_until is used by messages without a routing key only: each of those is its own lock.
create table queen_durable.mailbox_messages (
    id           bigint generated always as identity primary key,
    queue        text not null,
    routing_key  text,
    kind         text,
    body         bytea not null,
    order_at     bigint not null,
    visible_at   bigint not null,
    attempts     integer not null default 0,
    lock_token   text,
    locked_until bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

create index mailbox_messages_key on queen_durable.mailbox_messages (queue, routing_key, visible_at)
    where routing_key is not null;
create index mailbox_messages_single on queen_durable.mailbox_messages (queue, visible_at, id)
    where routing_key is null;
create index mailbox_messages_token on queen_durable.mailbox_messages (lock_token) where lock_token is not null;

create table queen_durable.mailbox_dead_letters (
    id          bigint primary key,
    queue       text not null,
    routing_key text,
    body        bytea not null,
    attempts    integer not null,
    error       text not null,
    dead_at     bigint not null
);

create index mailbox_dead_letters_queue on queen_durable.mailbox_dead_letters (queue, id);

create table queen_durable.mailbox_dedup (
    instance text not null,
    dedup_id text not null,
    primary key (instance, dedup_id)
);

-- An item without a tag has the empty tag. ready_at is the lock's expiry while lock_token is set.
create table queen_durable.work_items (
    id           bigint generated always as identity primary key,
    instance     text not null,
    execution_id integer not null,
    activity_id  integer not null,
    session_id   text,
    tag          text not null default '',
    priority     integer not null default 0,
    body         text not null,
    ready_at     bigint not null,
    lock_token   text,
    attempts     integer not null default 0
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

create index work_items_ready on queen_durable.work_items (priority desc, ready_at, id);
create index work_items_tag on queen_durable.work_items (tag, priority desc, ready_at, id);
create index work_items_due on queen_durable.work_items (ready_at);
create index work_items_activity on queen_durable.work_items (instance, execution_id, activity_id);
create unique index work_items_token on queen_durable.work_items (lock_token) where lock_token is not null;
create index work_items_session on queen_durable.work_items (session_id) where session_id is not null;

create table queen_durable.sessions (
    session_id       text primary key,
    owner            text not null,
    locked_until     bigint not null,
    last_activity_at bigint not null
);

create index sessions_owner on queen_durable.sessions (owner, locked_until);

create table queen_durable.instances (
    id                    bigint generated always as identity primary key,
    instance              text not null unique,
    name                  text not null,
    version               text not null,
    current_execution_id  integer not null,
    pinned_version        bigint,
    parent_instance       text,
    custom_status         text,
    custom_status_version bigint not null default 0,
    trace_id              text,
    created_at            bigint not null,
    updated_at            bigint not null
) with (fillfactor = 80);

create index instances_parent on queen_durable.instances (parent_instance, id) where parent_instance is not null;
create index instances_name on queen_durable.instances (name, id);
create index instances_trace on queen_durable.instances (trace_id) where trace_id is not null;

create table queen_durable.executions (
    instance       text not null,
    execution_id   integer not null,
    status         text not null default 'Running'
        check (status in ('Running', 'Completed', 'Failed', 'ContinuedAsNew')),
    output         text,
    pinned_version bigint,
    started_at     bigint not null,
    completed_at   bigint,
    primary key (instance, execution_id)
) with (fillfactor = 80);

create table queen_durable.history (
    instance     text not null,
    execution_id integer not null,
    event_id     integer not null,
    kind         text not null,
    data         text not null,
    primary key (instance, execution_id, event_id)
);

create table queen_durable.kv_store (
    instance   text not null,
    key        text not null,
    value      text not null,
    updated_at bigint not null,
    primary key (instance, key)
);

-- Changes made by the current execution; a null value says the key was cleared.
create table queen_durable.kv_delta (
    instance   text not null,
    key        text not null,
    value      text,
    updated_at bigint not null,
    primary key (instance, key)
);
