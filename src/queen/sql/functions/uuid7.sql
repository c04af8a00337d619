-- Promises: a UUIDv7 of this moment, on every supported PostgreSQL version (only 18 has uuidv7()). The twelve bits after the version are
--   the sign of an id that was made here, as in Python.
-- Locks: nothing.
create or replace function queen.uuid7() returns uuid
language sql volatile parallel safe
return encode(
    overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) || '\x751e'::bytea from 1 for 8),
    'hex')::uuid;
