-- Promises: a UUIDv7 of this moment, on every supported PostgreSQL version (only 18 has uuidv7()).
-- Locks: nothing.
create or replace function queen.uuid7() returns uuid
language sql volatile parallel safe
return encode(
    set_byte(
        overlay(uuid_send(gen_random_uuid())
            placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
        6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
    'hex')::uuid;
