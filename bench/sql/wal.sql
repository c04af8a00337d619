-- Where the write-ahead log stands, in bytes.
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as bytes
