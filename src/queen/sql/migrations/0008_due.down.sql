alter table queen.deliveries rename to deliveries_after;
drop index queen.deliveries_by_partition, queen.deliveries_by_time;

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
insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id, outcome,
                              consumer_group)
select queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id, outcome, consumer_group
  from queen.deliveries_after order by ended_at;
drop table queen.deliveries_after;

drop trigger correct_used on queen.partition_consumers;
drop function queen.correct_used();
drop trigger correct_pushed on queen.partitions;
drop function queen.correct_pushed();
drop table queen.stats_corrections;

drop index queen.stats_by_time;
drop index queen.traces_by_time;
drop index queen.retention_history_by_time;
drop index queen.scheduled_by_queue;

drop index queen.consumers_by_eviction;
alter table queen.partition_consumers drop column evict_at;

drop index queen.partitions_by_idle;
drop index queen.partitions_by_oldest;
alter table queen.partitions drop column idle_since, drop column oldest_at;
