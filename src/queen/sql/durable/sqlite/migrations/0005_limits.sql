-- Limits: who takes or waits for a place in a group of runs, and when those with a rate started.

-- ready_at: from when it may run, null while it waits. The place of a work item goes with the item, one that is kept with its
-- execution. limited: the limit as the sender knew it.
create table places (
    id integer primary key autoincrement,
    limit_group text not null,
    instance text not null,
    execution_id integer not null,
    activity_id integer not null,
    kept integer not null,
    limited text not null,
    wanted_at integer not null,
    ready_at integer,
    started_at integer
);

create index places_waiting on places (limit_group, id) where ready_at is null;
create index places_taken on places (limit_group) where ready_at is not null;
create unique index places_activity on places (instance, execution_id, activity_id);

-- The last starts of groups with a rate: each may be followed by another from free_at on.
create table starts (
    id integer primary key autoincrement,
    limit_group text not null,
    free_at integer not null
);

create index starts_group on starts (limit_group, free_at);
create index starts_free on starts (free_at);

-- Groups whose places have changed in this transaction.
create table unsettled (limit_group text primary key) without rowid;

-- limited: what the item waits for before it is ready.
alter table work_items add column limited text;
alter table work_items add column locked_at integer;

create trigger want_place after insert on work_items when new.limited is not null
begin
    insert into places (limit_group, instance, execution_id, activity_id, kept, limited, wanted_at)
    values (json_extract(new.limited, '$.group'), new.instance, new.execution_id, new.activity_id,
            coalesce(json_extract(new.limited, '$.kept'), 0), new.limited, new.ready_at);
    update work_items set ready_at = 9000000000000000 where id = new.id;
end;

create trigger leave_place after delete on work_items when old.limited is not null
begin
    delete from places
    where instance = old.instance and execution_id = old.execution_id and activity_id = old.activity_id
      and not (kept and started_at is not null);
end;

create trigger start_place after update of lock_token on work_items
when new.limited is not null and new.lock_token is not null
begin
    update places set started_at = new.locked_at
    where instance = new.instance and execution_id = new.execution_id and activity_id = new.activity_id
      and started_at is null;
end;

create trigger place_wanted after insert on places
begin
    insert or ignore into unsettled values (new.limit_group);
end;

create trigger place_left after delete on places
begin
    insert or ignore into unsettled values (old.limit_group);
    insert into starts (limit_group, free_at)
    select old.limit_group, old.ready_at
    where old.started_at is null and old.ready_at is not null and json_extract(old.limited, '$.rate') is not null;
end;

create trigger place_started after update of started_at on places
when old.started_at is null and json_extract(new.limited, '$.rate') is not null
begin
    insert or ignore into unsettled values (new.limit_group);
    insert into starts (limit_group, free_at)
    values (new.limit_group, new.started_at + json_extract(new.limited, '$.per_ms'));
end;

pragma user_version = 5;
