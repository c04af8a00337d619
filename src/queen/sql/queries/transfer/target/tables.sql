-- Where a transfer keeps how far it is, and its reports.
create schema if not exists queen_transfer;

create table if not exists queen_transfer.state (
    only_row       boolean primary key default true check (only_row),
    version        text not null,
    source         text not null,
    phase          text not null check (phase in ('copying', 'copied', 'closing', 'done', 'returning', 'returned')),
    begun_at       timestamptz not null default clock_timestamp(),
    copied_at      timestamptz,
    cut_at         timestamptz,
    returned_at    timestamptz,
    pause_ms       double precision,
    last_pos       bigint,
    last_dead_letter bigint
);

create table if not exists queen_transfer.progress (
    former_id uuid primary key,
    expected  bigint not null default 0,
    copied    boolean not null default false
);

create table if not exists queen_transfer.reports (
    id      bigint generated always as identity primary key,
    made_at timestamptz not null default clock_timestamp(),
    passed  boolean not null,
    report  jsonb not null
);

-- Promises: the highest seq in the partition whose (created_at, id) is not above the given; first_seq - 1 when there is none. A binary
--   search, as queen.seq_at. Names without a schema: the caller's search path says which of two schemas is meant.
-- Locks: nothing.
create or replace function queen_transfer.seq_of(p_partition bigint, p_at timestamptz, p_id uuid) returns bigint
language plpgsql stable as $$
declare
    v_low  bigint;
    v_high bigint;
    v_mid  bigint;
    m      record;
begin
    select first_seq - 1, next_seq - 1 into v_low, v_high from partitions where id = p_partition;
    while v_low < v_high loop
        v_mid := v_low + (v_high - v_low + 1) / 2;
        select created_at, id into m from messages where partition_id = p_partition and seq = v_mid;
        if (m.created_at, m.id) <= (p_at, p_id) then
            v_low := v_mid;
        else
            v_high := v_mid - 1;
        end if;
    end loop;
    return v_low;
end $$;
