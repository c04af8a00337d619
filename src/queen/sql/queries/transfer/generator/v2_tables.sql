-- What v2 has besides: status rows, cursors, leases and groups, each in a table of its own.
create table queen.messages_status (
    id               uuid primary key default gen_random_uuid(),
    message_id       uuid references queen.messages (id) on delete cascade,
    consumer_group   varchar(255),
    status           varchar(20) not null default 'pending'
                     check (status in ('pending', 'processing', 'completed', 'failed', 'dead_letter')),
    lease_expires_at timestamptz,
    processing_at    timestamptz,
    completed_at     timestamptz,
    failed_at        timestamptz,
    error_message    text,
    retry_count      integer default 0,
    unique (message_id, consumer_group)
);

create table queen.partition_cursors (
    id                       uuid primary key default gen_random_uuid(),
    partition_id             uuid references queen.partitions (id) on delete cascade,
    consumer_group           varchar(255) not null default '__QUEUE_MODE__',
    last_consumed_created_at timestamptz,
    last_consumed_id         uuid,
    total_messages_consumed  bigint default 0,
    total_batches_consumed   bigint default 0,
    last_consumed_at         timestamptz,
    created_at               timestamptz default now(),
    unique (partition_id, consumer_group)
);

create table queen.partition_leases (
    id               uuid primary key default gen_random_uuid(),
    partition_id     uuid references queen.partitions (id) on delete cascade,
    consumer_group   varchar(255) not null default '__QUEUE_MODE__',
    lease_expires_at timestamptz not null,
    message_batch    jsonb,
    batch_size       integer default 0,
    acked_count      integer default 0,
    created_at       timestamptz default now(),
    released_at      timestamptz,
    unique (partition_id, consumer_group)
);

create table queen.consumer_groups (
    id                uuid primary key default gen_random_uuid(),
    queue_id          uuid references queen.queues (id) on delete cascade,
    name              varchar(255) not null,
    subscription_mode varchar(50) default 'all',
    created_at        timestamptz default now(),
    unique (queue_id, name)
);
