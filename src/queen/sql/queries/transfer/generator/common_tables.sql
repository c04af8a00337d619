-- The tables that the schemas v2 and v3 have in common.
create schema queen;

create table queen.queues (
    id                          uuid primary key default gen_random_uuid(),
    name                        varchar(255) not null unique,
    namespace                   varchar(255),
    task                        varchar(255),
    priority                    integer default 0,
    lease_time                  integer default 300,
    retry_limit                 integer default 3,
    retry_delay                 integer default 1000,
    max_size                    integer default 10000,
    ttl                         integer default 3600,
    dlq_after_max_retries       boolean default false,
    delayed_processing          integer default 0,
    window_buffer               integer default 0,
    retention_seconds           integer default 0,
    completed_retention_seconds integer default 0,
    retention_enabled           boolean default false,
    encryption_enabled          boolean default false,
    max_wait_time_seconds       integer default 0,
    max_queue_size              integer default 0,
    created_at                  timestamptz default now()
);

create table queen.partitions (
    id            uuid primary key default gen_random_uuid(),
    queue_id      uuid references queen.queues (id) on delete cascade,
    name          varchar(255) not null default 'Default',
    created_at    timestamptz default now(),
    last_activity timestamptz default now(),
    unique (queue_id, name)
);

create table queen.messages (
    id             uuid primary key default gen_random_uuid(),
    transaction_id varchar(255),
    trace_id       uuid default gen_random_uuid(),
    partition_id   uuid references queen.partitions (id) on delete cascade,
    payload        jsonb,
    created_at     timestamptz not null default now(),
    is_encrypted   boolean default false
);

create index messages_in_order on queen.messages (partition_id, created_at, id);

create table queen.dead_letter_queue (
    id                  uuid primary key default gen_random_uuid(),
    message_id          uuid,
    partition_id        uuid references queen.partitions (id) on delete cascade,
    consumer_group      varchar(255),
    error_message       text,
    retry_count         integer default 0,
    original_created_at timestamptz,
    failed_at           timestamptz default now()
);

create index dead_letters_by_partition on queen.dead_letter_queue (partition_id, consumer_group);

create table queen.retention_history (
    id               uuid primary key default gen_random_uuid(),
    partition_id     uuid references queen.partitions (id) on delete cascade,
    messages_deleted integer default 0,
    retention_type   varchar(50),
    executed_at      timestamptz default now()
);
