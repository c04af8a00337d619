-- Statistics by the hour, kept for longer than those by the minute: what charts of weeks read.
create table queen.stats_hourly (
    queue_id   bigint not null references queen.queues (id) on delete cascade,
    bucket     timestamptz not null,
    pushed     bigint not null,
    popped     bigint not null,
    acked      bigint not null,
    failed     bigint not null,
    lag        numeric not null,
    max_lag_ms bigint not null,
    primary key (queue_id, bucket)
);

comment on column queen.stats_hourly.lag is 'mean over the minutes of the hour';

create index stats_hourly_by_time on queen.stats_hourly (bucket);
