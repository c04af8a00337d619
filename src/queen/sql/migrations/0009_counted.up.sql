-- Which messages a cursor row's counts are of; when a group was last there; queues have names.

alter table queen.partition_consumers add column counted_to bigint not null default 0;

comment on column queen.partition_consumers.counted_to is
    'retry_count and delivery_count are of the messages after the cursor up to here; an expiry of the lease counts for them';

update queen.partition_consumers set counted_to = batch_to
 where batch_to is not null and (lease_id is not null or retry_count > 0 or delivery_count > 0);

alter table queen.subscriptions add column used_at timestamptz not null default clock_timestamp();

comment on column queen.subscriptions.used_at is 'when the group last asked for messages, to the hour';
