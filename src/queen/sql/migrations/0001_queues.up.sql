-- Queues, their partitions, and the messages in them.

create schema if not exists queen;

create table queen.queues (
    id                          bigint generated always as identity primary key,
    name                        text not null unique check (octet_length(name) <= 512),
    namespace                   text not null default '',
    task                        text not null default '',
    priority                    integer not null default 0,
    lease_time                  integer not null default 300 check (lease_time >= 0),
    retry_limit                 integer not null default 3 check (retry_limit >= 0),
    retry_delay                 integer not null default 0 check (retry_delay >= 0),
    max_deliveries              integer not null default 0 check (max_deliveries >= 0),
    partial_failure             text not null default 'dlq' check (partial_failure in ('dlq', 'retry')),
    delayed_processing          integer not null default 0 check (delayed_processing >= 0),
    window_buffer               integer not null default 0 check (window_buffer >= 0),
    retention_enabled           boolean not null default false,
    retention_seconds           integer not null default 0 check (retention_seconds >= 0),
    completed_retention_seconds integer not null default 0 check (completed_retention_seconds >= 0),
    max_wait_time_seconds       integer not null default 0 check (max_wait_time_seconds >= 0),
    encryption_enabled          boolean not null default false,
    max_queue_size              integer not null default 0 check (max_queue_size >= 0),
    delivery_log                boolean not null default true,
    paused                      boolean not null default false,
    ttl                         integer not null default 3600,
    dead_letter_queue           boolean not null default false,
    dlq_after_max_retries       boolean not null default false,
    -- raised when a group is registered, so that creating a partition (FOR SHARE) and registering a group exclude each other
    group_changes               bigint not null default 0,
    created_at                  timestamptz not null default clock_timestamp()
);

create index queues_by_namespace on queen.queues (namespace, task, priority desc);

comment on column queen.queues.retry_delay is 'milliseconds';
comment on column queen.queues.ttl is 'kept for older clients that read it back; not consulted';

create table queen.partitions (
    id              bigint generated always as identity primary key,
    queue_id        bigint not null references queen.queues (id) on delete cascade,
    name            text not null check (octet_length(name) <= 512),
    first_seq       bigint not null default 1,
    next_seq        bigint not null default 1,
    has_skips       boolean not null default false,
    last_created_at timestamptz not null default '-infinity',
    last_activity   timestamptz not null default clock_timestamp(),
    created_at      timestamptz not null default clock_timestamp(),
    unique (queue_id, name)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Every message takes the next value; see queen.announce and queen.advance_horizon.
create sequence queen.message_pos as bigint cache 1;

-- No foreign key to partitions: a check per row costs more than the insert. The trigger on partitions removes messages instead, and
-- a push holds the row lock of its partition, so it cannot write into one that is being deleted.
create table queen.messages (
    partition_id   bigint not null,
    seq            bigint not null,
    pos            bigint not null,
    id             uuid not null,
    trace_id       uuid,
    parent_id      uuid,
    created_at     timestamptz not null,
    is_encrypted   boolean not null default false,
    transaction_id text check (octet_length(transaction_id) <= 1020),
    producer_sub   text,
    payload        jsonb not null,
    primary key (partition_id, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.1);

comment on column queen.messages.transaction_id is 'null when the server made it up: it is then the text of id';

-- A transaction id the server made up is unique by construction and needs no entry.
create unique index messages_by_transaction on queen.messages (partition_id, transaction_id) where transaction_id is not null;
create index messages_by_trace on queen.messages (trace_id) where trace_id is not null;
create index messages_by_pos on queen.messages using brin (pos) with (pages_per_range = 32, autosummarize = on);

create table queen.skips (
    partition_id   bigint not null references queen.partitions (id) on delete cascade,
    consumer_group text not null,
    seq            bigint not null,
    primary key (partition_id, consumer_group, seq)
);

comment on column queen.skips.consumer_group is '* stands for every group: the message was deleted by hand';

create function queen.remove_messages_of_partitions() returns trigger
language plpgsql as $$
begin
    delete from queen.messages m using gone where m.partition_id = gone.id;
    return null;
end $$;

create trigger remove_messages
after delete on queen.partitions
referencing old table as gone
for each statement execute function queen.remove_messages_of_partitions();
