-- Tables of the SQLite store. Times are milliseconds since 1970.

-- One row per (queue, routing key). The lock on this row hides every message of the key, present and future.
-- ready_at: from when the key may be handed out; the lock's expiry while locked; null when nothing waits.
create table mailbox_keys (
    queue text not null,
    routing_key text not null,
    ready_at integer,
    lock_token text,
    locked_until integer,
    primary key (queue, routing_key)
) without rowid;

create index mailbox_keys_ready on mailbox_keys (queue, ready_at) where ready_at is not null;
create unique index mailbox_keys_token on mailbox_keys (lock_token) where lock_token is not null;

-- order_at keeps the order of arrival when an abandon moves visible_at.
-- locked_until is used by messages without a routing key only: each of those is its own lock.
create table mailbox_messages (
    id integer primary key autoincrement,
    queue text not null,
    routing_key text,
    kind text,
    body blob not null,
    order_at integer not null,
    visible_at integer not null,
    attempts integer not null default 0,
    lock_token text,
    locked_until integer
);

create index mailbox_messages_key on mailbox_messages (queue, routing_key, visible_at) where routing_key is not null;
create index mailbox_messages_single on mailbox_messages (queue, visible_at, id) where routing_key is null;
create index mailbox_messages_token on mailbox_messages (lock_token) where lock_token is not null;

create table mailbox_dead_letters (
    id integer primary key,
    queue text not null,
    routing_key text,
    body blob not null,
    attempts integer not null,
    error text not null,
    dead_at integer not null
);

create table mailbox_dedup (
    instance text not null,
    dedup_id text not null,
    primary key (instance, dedup_id)
) without rowid;

create table work_items (
    id integer primary key autoincrement,
    instance text not null,
    execution_id integer not null,
    activity_id integer not null,
    session_id text,
    tag text,
    priority integer not null default 0,
    body text not null,
    ready_at integer not null,
    lock_token text,
    attempts integer not null default 0
);

create index work_items_ready on work_items (priority desc, ready_at, id);
create index work_items_tag on work_items (tag, priority desc, ready_at, id);
create index work_items_due on work_items (ready_at);
create index work_items_activity on work_items (instance, execution_id, activity_id);
create unique index work_items_token on work_items (lock_token) where lock_token is not null;
create index work_items_session on work_items (session_id) where session_id is not null;

create table sessions (
    session_id text primary key,
    owner text not null,
    locked_until integer not null,
    last_activity_at integer not null
) without rowid;

create index sessions_owner on sessions (owner, locked_until);

create table instances (
    id integer primary key autoincrement,
    instance text not null unique,
    name text not null,
    version text not null,
    current_execution_id integer not null,
    pinned_version integer,
    parent_instance text,
    custom_status text,
    custom_status_version integer not null default 0,
    trace_id text,
    created_at integer not null,
    updated_at integer not null
);

create index instances_parent on instances (parent_instance, id) where parent_instance is not null;
create index instances_name on instances (name, id);
create index instances_trace on instances (trace_id) where trace_id is not null;

create table executions (
    instance text not null,
    execution_id integer not null,
    status text not null default 'Running',
    output text,
    pinned_version integer,
    started_at integer not null,
    completed_at integer,
    primary key (instance, execution_id)
) without rowid;

create table history (
    instance text not null,
    execution_id integer not null,
    event_id integer not null,
    kind text not null,
    data text not null,
    primary key (instance, execution_id, event_id)
) without rowid;

create table kv_store (
    instance text not null,
    key text not null,
    value text not null,
    updated_at integer not null,
    primary key (instance, key)
) without rowid;

-- Changes made by the current execution; a null value says the key was cleared.
create table kv_delta (
    instance text not null,
    key text not null,
    value text,
    updated_at integer not null,
    primary key (instance, key)
) without rowid;

pragma user_version = 1;
