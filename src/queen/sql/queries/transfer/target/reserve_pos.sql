-- Sets aside $1 values of pos and returns the one before the first. Nobody else pushes here yet.
select setval('message_pos', nextval('message_pos') + $1::bigint) - $1::bigint - 1
