-- Limits: who takes or waits for a place in a group of runs, and when those with a rate started.

-- ready_at: from when it may run, null while it waits. The place of a work item goes with the item, one that is kept with its
-- execution. limited: the limit as the sender knew it.
create table queen_durable.places (
    id           bigint generated always as identity primary key,
    limit_group  text not null,
    instance     text not null,
    execution_id integer not null,
    activity_id  integer not null,
    kept         boolean not null,
    limited      jsonb not null,
    wanted_at    bigint not null,
    ready_at     bigint,
    started_at   bigint
);

create index places_waiting on queen_durable.places (limit_group, id) where ready_at is null;
create index places_taken on queen_durable.places (limit_group) where ready_at is not null;
create unique index places_activity on queen_durable.places (instance, execution_id, activity_id);

-- The last starts of groups with a rate: each may be followed by another from free_at on.
create table queen_durable.starts (
    id          bigint generated always as identity primary key,
    limit_group text not null,
    free_at     bigint not null
);

create index starts_group on queen_durable.starts (limit_group, free_at);
create index starts_free on queen_durable.starts (free_at);

-- limited: what the item waits for before it is ready.
alter table queen_durable.work_items add column limited jsonb;
alter type queen_durable.task_row add attribute limited text;
