-- How large the tables are that change all the time.
select c.relname as name, pg_total_relation_size(c.oid) as size
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'queen' and c.relkind = 'r' and c.relname in ('messages', 'partition_consumers', 'partitions', 'skips', 'deliveries')
