-- Pipelines: what ran and what it found, what to run when, and how far the archive has come.

create table queen.pipeline_runs (
    id           uuid primary key default gen_random_uuid(),
    pipeline     text not null check (pipeline <> '' and octet_length(pipeline) <= 512),
    state        text not null check (state in ('running', 'done', 'failed')),
    lake         text not null default '',
    master       text not null default '',
    period_start timestamptz,
    period_end   timestamptz,
    options      jsonb not null default '{}',
    versions     jsonb not null default '{}',
    rows         bigint not null default 0,
    lag          bigint,
    figures      jsonb not null default '{}',
    progress     jsonb not null default '{}',
    error        text,
    started_at   timestamptz not null,
    finished_at  timestamptz,
    heartbeat_at timestamptz not null
);

create index pipeline_runs_by_name on queen.pipeline_runs (pipeline, started_at desc, id desc);

comment on column queen.pipeline_runs.lag is 'messages committed but not in the lake when the run ended';

create table queen.pipeline_results (
    run_id   uuid not null references queen.pipeline_runs (id) on delete cascade,
    pipeline text not null,
    kind     text not null check (kind <> '' and octet_length(kind) <= 512),
    key      text not null check (octet_length(key) <= 2048),
    value    jsonb not null,
    primary key (run_id, kind, key)
);

-- What the charts read: one row per grain and bucket. An empty partition stands for the whole queue, an empty group for none.
create table queen.rollups (
    queue           text not null,
    partition       text not null default '',
    consumer_group  text not null default '',
    grain           text not null check (grain in ('minute', 'hour', 'day')),
    bucket          timestamptz not null,
    messages_in     bigint not null default 0,
    messages_out    bigint not null default 0,
    messages_failed bigint not null default 0,
    bytes_in        bigint not null default 0,
    wait_p50_ms     double precision,
    wait_p95_ms     double precision,
    wait_p99_ms     double precision,
    work_p50_ms     double precision,
    work_p95_ms     double precision,
    work_p99_ms     double precision,
    lag             bigint,
    backlog_age_ms  bigint,
    primary key (queue, grain, bucket, partition, consumer_group)
);

create index rollups_by_bucket on queen.rollups (grain, bucket);

create table queen.pipeline_schedules (
    pipeline   text primary key check (pipeline <> '' and octet_length(pipeline) <= 512),
    cron       text,
    every      interval,
    lake       text not null,
    master     text not null,
    options    jsonb not null default '{}',
    next_at    timestamptz not null,
    last_at    timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    check ((cron is null) <> (every is null) and coalesce(every > interval '0', true))
);

-- How far each lake holds each table; moved only after the lake has committed, never back.
create table queen.archive_positions (
    lake       uuid not null,
    source     text not null,
    place      text not null,
    pos        bigint,
    until      timestamptz,
    updated_at timestamptz not null,
    primary key (lake, source)
);

comment on column queen.archive_positions.place is 'host and directory of the lake, for people';
comment on column queen.archive_positions.pos is 'every message with a smaller pos is in the lake';
comment on column queen.archive_positions.until is 'every row of the table that is older is in the lake';

-- With this on, retention keeps what is not in every lake yet.
alter table queen.queues add column archive boolean not null default false;
