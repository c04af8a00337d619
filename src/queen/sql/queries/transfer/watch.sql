-- What both earlier schemas need to tell what changes: a log, written by the transaction that makes the change, and read by deleting, so
-- that an entry that commits late is still found.
create schema if not exists queen_transfer;

create table if not exists queen_transfer.changes (
    id             bigint generated always as identity primary key,
    kind           text not null,
    partition_id   uuid,
    consumer_group text,
    since          timestamptz,
    until          timestamptz
);

create or replace function queen_transfer.tell_messages() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind, partition_id, since, until)
    select case tg_op when 'DELETE' then 'removed' else 'messages' end, partition_id, min(created_at), max(created_at)
      from touched group by partition_id;
    return null;
end $$;

create or replace function queen_transfer.tell_consumers() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind, partition_id, consumer_group)
    select distinct 'consumers', partition_id, coalesce(consumer_group, '__QUEUE_MODE__') from touched;
    return null;
end $$;

create or replace function queen_transfer.tell_dead_letters() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind, partition_id) select distinct 'dead letters', partition_id from touched;
    return null;
end $$;

create or replace function queen_transfer.tell_traces() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind, partition_id) select distinct 'traces', partition_id from touched;
    return null;
end $$;

create or replace function queen_transfer.tell_structure() returns trigger
language plpgsql as $$
begin
    insert into queen_transfer.changes (kind) values ('structure');
    return null;
end $$;

-- Promises: every insert, update and delete on a table of the schema queen calls a function of queen_transfer with the rows touched.
-- Locks: the table, against writers (SHARE ROW EXCLUSIVE).
create or replace function queen_transfer.watch(p_table text, p_function text) returns void
language plpgsql as $$
declare
    v_event text;
begin
    foreach v_event in array array['insert', 'update', 'delete'] loop
        if not exists (select from pg_trigger where tgrelid = format('queen.%I', p_table)::regclass and tgname = 'queen_transfer_' || v_event) then
            execute format('create trigger %I after %s on queen.%I referencing %s table as touched for each statement '
                           'execute function queen_transfer.%I()',
                           'queen_transfer_' || v_event, v_event, p_table, case v_event when 'delete' then 'old' else 'new' end, p_function);
        end if;
    end loop;
end $$;

select queen_transfer.watch('queues', 'tell_structure');
select queen_transfer.watch('partitions', 'tell_structure');
select queen_transfer.watch('messages', 'tell_messages');
select queen_transfer.watch('dead_letter_queue', 'tell_dead_letters');
