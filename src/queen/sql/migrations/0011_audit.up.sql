-- Who changed what by hand: one row for each administrative act.
create table queen.audit (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    subject text not null,
    act     text not null,
    queue   text,
    target  text,
    text    text not null,
    detail  jsonb not null default '{}'
);

comment on column queen.audit.target is 'what of the queue it was about: a group, a partition, a message';

create index audit_by_queue on queen.audit (queue, id) where queue is not null;
create index audit_by_time on queen.audit (at);
