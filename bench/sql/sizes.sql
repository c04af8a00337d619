-- How large the cursor table and its indexes are, in bytes.
select pg_table_size('queen.partition_consumers') as table_bytes, pg_indexes_size('queen.partition_consumers') as index_bytes
