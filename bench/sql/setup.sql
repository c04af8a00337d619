-- The ceilings: bare copies of what the verbs write, with nothing around them.
drop schema if exists bare cascade;
create schema bare;

create table bare.messages (like queen.messages including defaults);
alter table bare.messages add primary key (partition_id, seq);
create unique index on bare.messages (partition_id, transaction_id) where transaction_id is not null;

create table bare.cursors (id bigint primary key, seq bigint not null) with (fillfactor = 50);
insert into bare.cursors select i, 0 from generate_series(1, 1000) i;

-- The old way: a status row per message and group, a cursor row and a lease row, each written by an acknowledgement.
create table bare.messages_status (
    message_id uuid not null, consumer_group text not null, status text not null, lease_expires_at timestamptz,
    completed_at timestamptz, retry_count integer not null default 0, primary key (message_id, consumer_group)
);
create index on bare.messages_status (status, lease_expires_at);
create table bare.partition_cursors (
    partition_id bigint not null, consumer_group text not null, last_message_id uuid, total bigint not null default 0,
    updated_at timestamptz, primary key (partition_id, consumer_group)
);
create table bare.partition_leases (
    partition_id bigint not null, consumer_group text not null, lease_id uuid, lease_expires_at timestamptz, released_at timestamptz,
    primary key (partition_id, consumer_group)
);
create index on bare.partition_leases (lease_expires_at);
insert into bare.partition_cursors select i, 'g', null, 0, now() from generate_series(1, 1000) i;
insert into bare.partition_leases select i, 'g', gen_random_uuid(), now(), null from generate_series(1, 1000) i;
