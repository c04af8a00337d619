-- Promises: the messages of a lease were not done: all of them, or with `message_id` that one. `status` failed: one retry is spent and they
--   are delivered again after the queue's retry_delay; with no retry left they become dead letters with this `error`, and the queue
--   goes on. retry: delivered again after `delay`, uncounted. dlq: dead letters at once. Returns how many became dead letters.
--   Raises LEASE_LOST, MESSAGE_NOT_FOUND, INVALID_*.
-- Locks: as queen.ack_messages.
create or replace function queen.nack(
    lease_id uuid, message_id uuid default null, error text default '', status text default 'failed', delay interval default '0'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_dead  bigint;
    v_delay bigint := extract(epoch from nack.delay) * 1000;
    l       record;
begin
    if nack.status is null or nack.status not in ('failed', 'retry', 'dlq') then
        perform queen.raise_error('INVALID_STATUS', 'status must be failed, retry or dlq');
    end if;
    perform queen.require_number('delay', v_delay, 0, 86400000);
    if v_delay > 0 and (nack.status <> 'retry' or nack.message_id is not null) then
        perform queen.raise_error('INVALID_DELAY', 'delay goes with status retry of a whole lease');
    end if;
    l := queen.leased_range(nack.lease_id, nack.message_id);
    if nack.status = 'retry' and nack.message_id is null then
        perform from queen.release(array[nack.lease_id], v_delay::integer);
        return 0;
    end if;
    with items as (
        select r.id, r.name, s.seq
          from unnest(l.ids, l.groups, l.first, l.last) r(id, name, first, last)
         cross join lateral generate_series(case when nack.message_id is null then r.first else r.last end, r.last) s(seq)
         where exists (select from queen.messages m where m.partition_id = r.id and m.seq = s.seq)
    ), n as (
        select array_agg(1) as call, array_agg(i.id order by i.id, i.seq) as ids, array_agg(i.name order by i.id, i.seq) as names,
               array_agg(nack.lease_id) as leases, array_agg(null::text) as transactions, array_agg(i.seq order by i.id, i.seq) as seqs,
               array_agg(nack.status) as statuses, array_agg(coalesce(nack.error, '')) as errors
          from items i
    )
    select count(*) filter (where a.dead) into v_dead
      from n cross join lateral queen.ack_messages(n.call, n.ids, n.names, n.leases, n.transactions, n.seqs, n.statuses, n.errors) a;
    return v_dead;
end $$;
