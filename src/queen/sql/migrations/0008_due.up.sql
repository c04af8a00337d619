-- What the services look for is found by an index on when it is due, so that they cost by what there is to do; and the delivery log ages
-- out without a lock that an acknowledgement waits for.

alter table queen.partitions add column oldest_at timestamptz, add column idle_since timestamptz;
comment on column queen.partitions.oldest_at is 'not later than the creation of the oldest message kept; null when there is none';
comment on column queen.partitions.idle_since is 'the last push, once nothing is kept; null while messages are';
update queen.partitions p
   set oldest_at = (select m.created_at from queen.messages m where m.partition_id = p.id order by m.seq limit 1),
       idle_since = case when p.first_seq = p.next_seq then p.last_activity end;
alter table queen.partitions alter column idle_since set default clock_timestamp();
create index partitions_by_oldest on queen.partitions (queue_id, oldest_at, id) where oldest_at is not null;
create index partitions_by_idle on queen.partitions (idle_since) where idle_since is not null;

alter table queen.partition_consumers add column evict_at timestamptz;
comment on column queen.partition_consumers.evict_at is 'nothing waits too long before this time; null: nothing waits, or the queue has no maximum wait';
create index consumers_by_eviction on queen.partition_consumers (queue_id, evict_at) where evict_at is not null;
update queen.partition_consumers c set evict_at = c.ready_at
  from queen.queues q where q.id = c.queue_id and q.max_wait_time_seconds > 0 and c.ready_at is not null;

create index scheduled_by_queue on queen.scheduled_messages (queue_id, deliver_at, id);

create index retention_history_by_time on queen.retention_history (executed_at);
create index traces_by_time on queen.traces (created_at);
create index stats_by_time on queen.stats (bucket);

-- What deleted partitions and groups had counted goes from the totals too, so that the next difference is exact.
create table queen.stats_corrections (
    queue_id bigint not null,
    pushed   bigint not null default 0,
    popped   bigint not null default 0,
    acked    bigint not null default 0,
    failed   bigint not null default 0
);

create function queen.correct_pushed() returns trigger
language plpgsql as $$
begin
    insert into queen.stats_corrections (queue_id, pushed) select gone.queue_id, sum(gone.next_seq - 1) from gone group by 1;
    return null;
end $$;

create trigger correct_pushed
after delete on queen.partitions
referencing old table as gone
for each statement execute function queen.correct_pushed();

create function queen.correct_used() returns trigger
language plpgsql as $$
begin
    insert into queen.stats_corrections (queue_id, popped, acked, failed)
    select gone.queue_id, sum(gone.total_messages_delivered), sum(gone.total_messages_consumed), sum(gone.total_messages_failed)
      from gone group by 1;
    return null;
end $$;

create trigger correct_used
after delete on queen.partition_consumers
referencing old table as gone
for each statement execute function queen.correct_used();

-- The delivery log is a ring of sixteen tables, one for each day in turn. No table is ever made or dropped: a day that is over long ago
-- is truncated, and nobody writes there then.
alter table queen.deliveries rename to deliveries_before;
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
) partition by list (((((ended_at at time zone 'utc')::date - date '2000-01-01') % 16)));

comment on column queen.deliveries.outcome is 'completed, partial, failed, retried, released, expired, moved (seek or delete)';

create index deliveries_by_partition on queen.deliveries (partition_id, batch_to);
create index deliveries_by_time on queen.deliveries using brin (ended_at) with (autosummarize = on);

do $$
begin
    for day in 0 .. 15 loop
        execute format('create table queen.%I partition of queen.deliveries for values in (%s)', 'deliveries_' || to_char(day, 'FM00'), day);
    end loop;
end $$;

insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id, outcome,
                              consumer_group)
select queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id, outcome, consumer_group
  from queen.deliveries_before order by ended_at;
drop table queen.deliveries_before;
