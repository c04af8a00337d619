-- What the database itself saw, in the order it happened: every stored message, and every lease and step of a cursor. Rows are noted in
-- the transaction that makes them, and a step while its row is locked, so that what was rolled back is missing and order is exact.
create schema torture;

create table torture.stored (
    n              bigint generated always as identity,
    partition_id   bigint not null,
    seq            bigint not null,
    name           text not null,
    parent_id      uuid,
    id             uuid not null,
    at             timestamptz not null
);

create function torture.note_stored() returns trigger language plpgsql as $$
begin
    insert into torture.stored (partition_id, seq, name, parent_id, id, at)
    select f.partition_id, f.seq, coalesce(f.transaction_id, f.id::text), f.parent_id, f.id, clock_timestamp() from fresh f order by f.pos;
    return null;
end $$;

create trigger note_stored after insert on queen.messages
    referencing new table as fresh for each statement execute function torture.note_stored();

create table torture.steps (
    n              bigint generated always as identity,
    partition_id   bigint not null,
    consumer_group text not null,
    cursor_was     bigint not null,
    cursor_is      bigint not null,
    lease_was      uuid,
    lease_is       uuid,
    expired        boolean not null,
    batch_from     bigint,
    batch_to       bigint,
    counted_to     bigint,
    retry_count    integer not null,
    delivery_count integer not null,
    at             timestamptz not null
);

create function torture.note_step() returns trigger language plpgsql as $$
begin
    insert into torture.steps (partition_id, consumer_group, cursor_was, cursor_is, lease_was, lease_is, expired, batch_from, batch_to,
                               counted_to, retry_count, delivery_count, at)
    values (new.partition_id, new.consumer_group, old.last_consumed_seq, new.last_consumed_seq, old.lease_id, new.lease_id,
            coalesce(old.lease_expires_at, '-infinity') <= clock_timestamp(), new.batch_from, new.batch_to,
            new.counted_to, new.retry_count, new.delivery_count, clock_timestamp());
    return null;
end $$;

create trigger note_step after update on queen.partition_consumers for each row
    when (old.last_consumed_seq <> new.last_consumed_seq or old.lease_id is distinct from new.lease_id
          or old.batch_to is distinct from new.batch_to)
    execute function torture.note_step();

-- Rows of an application that pushes in its own transactions.
create table torture.outbox (name text primary key);
