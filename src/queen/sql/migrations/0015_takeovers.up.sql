-- What a server that takes over knows about the one before it: how far the horizon had come that reached it. Whoever holds a position of the
-- server before may go on here if that position is not above it.
alter table queen.horizon add column timeline integer;
update queen.horizon set timeline = ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer;

comment on column queen.horizon.timeline is 'the timeline of the server that moved it last';

create table queen.takeovers (
    timeline integer primary key,
    position bigint not null,
    noted_at timestamptz not null
);

comment on table queen.takeovers is 'servers before this one, by timeline, and how far the horizon of each had come when this one took over';
