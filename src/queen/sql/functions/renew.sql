-- Promises: a lease lives at least `seconds` from now (never shorter than it already does); returns until when. One that ran out is not
--   revived: LEASE_LOST. Raises INVALID_SECONDS.
-- Locks: as queen.renew_leases.
create or replace function queen.renew(lease_id uuid, seconds integer default 60) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    r record;
begin
    perform queen.require_number('seconds', renew.seconds, 1, 86400);
    select * into r from queen.renew_leases(array[renew.lease_id], renew.seconds);
    if r.renewed = 0 then
        perform queen.raise_error('LEASE_LOST', 'the lease ended; its messages may be with somebody else');
    end if;
    return r.expires_at;
end $$;
