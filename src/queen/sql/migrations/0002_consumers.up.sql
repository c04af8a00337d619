-- Consumer groups: where they started, how far they are, what they gave up on, what was handed out to them.

create table queen.subscriptions (
    queue_id       bigint not null references queen.queues (id) on delete cascade,
    consumer_group text not null check (consumer_group <> '' and octet_length(consumer_group) <= 512),
    mode           text not null check (mode in ('all', 'new', 'timestamp')),
    start_at       timestamptz not null,
    -- the committed heads at the moment of registration (mode new), until every partition has its cursor row
    head_partitions bigint[],
    head_seqs       bigint[],
    filled_to      bigint not null default 0,
    filled         boolean not null default false,
    created_at     timestamptz not null,
    primary key (queue_id, consumer_group)
);

create table queen.partition_consumers (
    partition_id             bigint not null references queen.partitions (id) on delete cascade,
    queue_id                 bigint not null,
    ready_at                 timestamptz,
    lease_expires_at         timestamptz,
    lease_acquired_at        timestamptz,
    last_consumed_at         timestamptz,
    last_consumed_seq        bigint not null default 0,
    batch_from               bigint,
    batch_to                 bigint,
    total_messages_consumed  bigint not null default 0,
    total_batches_consumed   bigint not null default 0,
    total_messages_delivered bigint not null default 0,
    total_messages_failed    bigint not null default 0,
    retry_count              integer not null default 0,
    delivery_count           integer not null default 0,
    idle_ms                  integer not null default 0,
    lease_id                 uuid,
    consumer_group           text not null,
    primary key (partition_id, consumer_group)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

comment on column queen.partition_consumers.ready_at is 'from when this lane may be handed out; null = nothing waiting';
comment on column queen.partition_consumers.idle_ms is 'how long the lane was last put off while a push was in flight';

create index consumers_by_ready on queen.partition_consumers (queue_id, consumer_group, ready_at) where ready_at is not null;
create index consumers_by_lease on queen.partition_consumers (lease_id) where lease_id is not null;

create table queen.dead_letter_queue (
    id             bigint generated always as identity primary key,
    queue_id       bigint not null references queen.queues (id) on delete cascade,
    partition_id   bigint not null references queen.partitions (id) on delete cascade,
    consumer_group text not null,
    seq            bigint not null,
    message_id     uuid not null,
    transaction_id text not null,
    trace_id       uuid,
    parent_id      uuid,
    payload        jsonb not null,
    is_encrypted   boolean not null,
    producer_sub   text,
    created_at     timestamptz not null,
    error_message  text not null default '',
    retry_count    integer not null default 0,
    evicted        boolean not null default false,
    failed_at      timestamptz not null,
    redriven_at    timestamptz,
    redriven_as    uuid
);

create index dead_letters_by_queue on queen.dead_letter_queue (queue_id, consumer_group, id);
create index dead_letters_by_partition on queen.dead_letter_queue (partition_id, seq);

-- No foreign keys: an append-only log that ages out by whole slices.
create table queen.deliveries (
    queue_id       bigint not null,
    partition_id   bigint not null,
    batch_from     bigint not null,
    batch_to       bigint not null,
    leased_at      timestamptz not null,
    ended_at       timestamptz not null,
    retry_count    integer not null,
    failed         integer not null,
    lease_id       uuid,
    outcome        text not null,
    consumer_group text not null
) partition by range (ended_at);

comment on column queen.deliveries.outcome is 'completed, partial, failed, retried, released, expired, moved (seek or delete)';

create index deliveries_by_partition on queen.deliveries (partition_id, batch_to);
create index deliveries_by_time on queen.deliveries using brin (ended_at);
create table queen.deliveries_default partition of queen.deliveries default;

create table queen.scheduled_messages (
    id             uuid primary key,
    queue_id       bigint not null references queen.queues (id) on delete cascade,
    partition_name text not null,
    deliver_at     timestamptz not null,
    transaction_id text,
    trace_id       uuid,
    parent_id      uuid,
    payload        jsonb not null,
    is_encrypted   boolean not null default false,
    producer_sub   text,
    created_at     timestamptz not null
);

create index scheduled_by_time on queen.scheduled_messages (deliver_at, id);
create unique index scheduled_by_transaction on queen.scheduled_messages (queue_id, partition_name, transaction_id)
    where transaction_id is not null;

-- What limited queues may still take, spread over slots so that producers do not wait for one another.
create table queen.queue_credits (
    queue_id bigint not null references queen.queues (id) on delete cascade,
    slot     smallint not null,
    credit   bigint not null default 0,
    primary key (queue_id, slot)
) with (fillfactor = 50);
