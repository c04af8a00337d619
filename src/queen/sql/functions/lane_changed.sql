-- Promises: always raises 40001: a lane that was locked had changed since the statement's snapshot, so the statement could not write it.
-- Locks: nothing.
create or replace function queen.lane_changed() returns boolean
language plpgsql volatile as $$
begin
    raise exception using errcode = '40001', message = 'a lane changed while it was acknowledged; try again';
end $$;
