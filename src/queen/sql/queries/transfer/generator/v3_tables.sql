-- What v3 has besides: one row per partition and group with cursor and lease, subscriptions, traces.
alter table queen.messages add column producer_sub text;
create unique index messages_by_transaction on queen.messages (partition_id, transaction_id);
alter table queen.dead_letter_queue add foreign key (message_id) references queen.messages (id) on delete cascade;
create index dead_letters_by_message on queen.dead_letter_queue (message_id);

create table queen.partition_consumers (
    id                       uuid primary key default gen_random_uuid(),
    partition_id             uuid references queen.partitions (id) on delete cascade,
    consumer_group           varchar(255) not null default '__QUEUE_MODE__',
    last_consumed_id         uuid not null default '00000000-0000-0000-0000-000000000000',
    last_consumed_created_at timestamptz,
    total_messages_consumed  bigint default 0,
    total_batches_consumed   bigint default 0,
    last_consumed_at         timestamptz,
    lease_expires_at         timestamptz,
    lease_acquired_at        timestamptz,
    message_batch            jsonb,
    batch_size               integer default 0,
    acked_count              integer default 0,
    worker_id                varchar(255),
    batch_retry_count        integer default 0,
    pending_estimate         bigint default 0,
    created_at               timestamptz default now(),
    unique (partition_id, consumer_group),
    check ((last_consumed_id = '00000000-0000-0000-0000-000000000000') = (last_consumed_created_at is null))
);

create table queen.consumer_groups_metadata (
    id                     uuid primary key default gen_random_uuid(),
    consumer_group         varchar(255) not null,
    queue_name             varchar(255) not null default '',
    partition_name         varchar(255) not null default '',
    namespace              varchar(255) not null default '',
    task                   varchar(255) not null default '',
    subscription_mode      varchar(50) not null default 'all',
    subscription_timestamp timestamptz,
    created_at             timestamptz default now(),
    unique (consumer_group, queue_name, partition_name, namespace, task)
);

create table queen.message_traces (
    id             uuid primary key default gen_random_uuid(),
    message_id     uuid references queen.messages (id) on delete cascade,
    partition_id   uuid references queen.partitions (id) on delete cascade,
    transaction_id varchar(255) not null,
    consumer_group varchar(255),
    event_type     varchar(100) not null default 'info',
    data           jsonb not null default '{}',
    created_at     timestamptz default now()
);

create index message_traces_by_message on queen.message_traces (message_id);
create index message_traces_by_partition on queen.message_traces (partition_id, created_at);

create table queen.message_trace_names (
    trace_id   uuid not null references queen.message_traces (id) on delete cascade,
    trace_name text not null,
    primary key (trace_id, trace_name)
);
