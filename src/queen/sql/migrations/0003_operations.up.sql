-- What the services and operators need: history of removals, statistics, traces, streams, who runs what, settings, the horizon.

create table queen.retention_history (
    id               bigint generated always as identity primary key,
    queue_id         bigint not null references queen.queues (id) on delete cascade,
    partition_id     bigint not null,
    retention_type   text not null check (retention_type in ('retention', 'completed', 'evicted')),
    messages_removed bigint not null,
    up_to_seq        bigint not null,
    executed_at      timestamptz not null
);

create index retention_history_by_queue on queen.retention_history (queue_id, executed_at desc);

create table queen.stats (
    queue_id       bigint not null references queen.queues (id) on delete cascade,
    bucket         timestamptz not null,
    pushed         bigint not null default 0,
    popped         bigint not null default 0,
    acked          bigint not null default 0,
    failed         bigint not null default 0,
    lag            bigint not null default 0,
    max_lag_ms     bigint not null default 0,
    primary key (queue_id, bucket)
);

-- Running totals at the last collection; a bucket is the difference to them.
create table queen.stats_totals (
    queue_id bigint primary key references queen.queues (id) on delete cascade,
    pushed   bigint not null,
    popped   bigint not null,
    acked    bigint not null,
    failed   bigint not null
);

create table queen.traces (
    id             bigint generated always as identity primary key,
    partition_id   bigint not null references queen.partitions (id) on delete cascade,
    transaction_id text not null,
    message_id     uuid not null,
    consumer_group text,
    event_type     text not null,
    data           jsonb not null,
    created_at     timestamptz not null
);

create index traces_by_message on queen.traces (partition_id, transaction_id);

create table queen.trace_names (
    trace_name text not null,
    trace_id   bigint not null references queen.traces (id) on delete cascade,
    primary key (trace_name, trace_id)
);

create index trace_names_by_trace on queen.trace_names (trace_id);

create table queen.stream_queries (
    id           uuid primary key default gen_random_uuid(),
    name         text not null unique,
    source_queue text not null,
    sink_queue   text,
    config_hash  text not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null
);

create table queen.stream_state (
    query_id     uuid not null references queen.stream_queries (id) on delete cascade,
    partition_id bigint not null references queen.partitions (id) on delete cascade,
    key          text not null,
    value        jsonb not null,
    updated_at   timestamptz not null,
    primary key (query_id, partition_id, key)
);

create table queen.service_leases (
    service       text primary key,
    holder        text not null,
    expires_at    timestamptz not null,
    interval_ms   bigint not null,
    slot          bigint not null default 0,
    last_start_at timestamptz,
    last_success  timestamptz,
    last_error_at timestamptz,
    last_error    text,
    last_result   jsonb
);

create table queen.service_ticks (
    service    text not null,
    slot       bigint not null,
    holder     text not null,
    started_at timestamptz not null,
    primary key (service, slot)
);

create table queen.settings (
    key        text primary key,
    value      jsonb not null,
    updated_at timestamptz not null default clock_timestamp()
);

-- One row: every message with pos < position is committed and visible.
create table queen.horizon (
    only_row boolean primary key default true check (only_row),
    position bigint not null
);

insert into queen.horizon (position) values (1);
