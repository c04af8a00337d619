-- Promises: an item with a limit waits for a place of its group: far in the future until settle_limit gives it one.
-- Locks: nothing.
create or replace function queen_durable.want_place() returns trigger
language plpgsql volatile as $$
begin
    insert into queen_durable.places (limit_group, instance, execution_id, activity_id, kept, limited, wanted_at)
    values (new.limited ->> 'group', new.instance, new.execution_id, new.activity_id,
            coalesce((new.limited ->> 'kept')::boolean, false), new.limited, new.ready_at);
    new.ready_at := 9000000000000000;
    return new;
end $$;

create or replace trigger want_place
before insert on queen_durable.work_items
for each row when (new.limited is not null) execute function queen_durable.want_place();

-- Promises: whatever ends an item, its place is free; one that is kept stays until its execution ends.
-- Locks: the row of the place.
create or replace function queen_durable.leave_place() returns trigger
language plpgsql volatile as $$
begin
    delete from queen_durable.places p
    where p.instance = old.instance and p.execution_id = old.execution_id and p.activity_id = old.activity_id
      and not (p.kept and p.started_at is not null);
    return null;
end $$;

create or replace trigger leave_place
after delete on queen_durable.work_items
for each row when (old.limited is not null) execute function queen_durable.leave_place();

-- Promises: the places that executions kept are free.
-- Locks: the rows of the places.
create or replace function queen_durable.leave_places(p_instances text[]) returns void
language sql volatile as $$
    delete from queen_durable.places p where p.instance = any (p_instances) and p.kept;
$$;

-- Promises: at the end of a transaction that changed places of a group, those who waited longest have the free ones: never more than
--   concurrency at once, never more than rate starts in any per_ms. A start is followed by another when per_ms have passed;
--   whoever is given that start is ready from then on. Tells workers when somebody may run.
-- Locks: the limits of the whole schema, last of all and until the end of the transaction; the rows of those who wait, unless another
--   transaction is just deleting them.
create or replace function queen_durable.settle_limit() returns trigger
language plpgsql volatile as $$
declare
    v_group   text := coalesce(new.limit_group, old.limit_group);
    v_next    queen_durable.places;
    v_taken   integer;
    v_coming  integer;
    v_surplus integer;
    v_before  bigint;
    v_given   boolean := false;
begin
    perform pg_advisory_xact_lock(hashtextextended(tg_table_schema || ' limits', 0));
    if tg_op = 'UPDATE' then
        insert into queen_durable.starts (limit_group, free_at)
        values (v_group, new.started_at + (new.limited ->> 'per_ms')::bigint);
    elsif tg_op = 'DELETE' and old.started_at is null and old.ready_at is not null and old.limited ? 'rate' then
        insert into queen_durable.starts (limit_group, free_at) values (v_group, old.ready_at);
    end if;
    loop
        select * into v_next from queen_durable.places p
        where p.limit_group = v_group and p.ready_at is null
        order by p.id limit 1
        for update skip locked;
        exit when v_next.id is null;
        select count(*), count(*) filter (where p.started_at is null) into v_taken, v_coming
        from queen_durable.places p
        where p.limit_group = v_group and p.ready_at is not null;
        exit when v_taken >= (v_next.limited ->> 'concurrency')::integer;
        v_before := 0;
        if v_next.limited ? 'rate' then
            v_surplus := v_coming - (v_next.limited ->> 'rate')::integer
                + (select count(*) from queen_durable.starts s where s.limit_group = v_group);
            if v_surplus >= 0 then
                with past as (
                    delete from queen_durable.starts s
                    where s.id in (
                        select s.id from queen_durable.starts s
                        where s.limit_group = v_group order by s.free_at, s.id limit v_surplus + 1
                    )
                    returning s.free_at
                )
                select max(past.free_at) into v_before from past having count(*) = v_surplus + 1;
                exit when v_before is null;
            end if;
        end if;
        update queen_durable.places p set ready_at = greatest(p.wanted_at, v_before) where p.id = v_next.id;
        update queen_durable.work_items w set ready_at = greatest(v_next.wanted_at, v_before)
        where w.id = (
            select w.id from queen_durable.work_items w
            where w.instance = v_next.instance and w.execution_id = v_next.execution_id
              and w.activity_id = v_next.activity_id
            for update skip locked
        );
        v_given := true;
    end loop;
    if v_given then
        perform pg_notify(tg_table_schema, 'limits w ');
    end if;
    return null;
end $$;

drop trigger if exists settle_wanted on queen_durable.places;
create constraint trigger settle_wanted
after insert or delete on queen_durable.places deferrable initially deferred
for each row execute function queen_durable.settle_limit();

drop trigger if exists settle_started on queen_durable.places;
create constraint trigger settle_started
after update of started_at on queen_durable.places deferrable initially deferred
for each row when (old.started_at is null and new.started_at is not null and new.limited ? 'rate')
execute function queen_durable.settle_limit();

-- Promises: forgets starts that hold nobody back any more, for groups that nobody asks for again.
-- Locks: the limits of the whole schema, when there are any.
create or replace function queen_durable.forget_starts(p_channel text, p_now bigint) returns void
language plpgsql volatile as $$
begin
    if exists (select from queen_durable.starts s where s.free_at <= queen_durable.clock_ms(p_now)) then
        perform pg_advisory_xact_lock(hashtextextended(p_channel || ' limits', 0));
        delete from queen_durable.starts s where s.free_at <= queen_durable.clock_ms(p_now);
    end if;
end $$;
