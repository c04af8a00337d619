-- How large the tables are that change all the time; the delivery log is a ring of several.
select regexp_replace(c.relname, '_\d+$', '') as name, sum(pg_total_relation_size(c.oid))::bigint as size
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'queen' and c.relkind = 'r'
   and regexp_replace(c.relname, '_\d+$', '') in ('messages', 'partition_consumers', 'partitions', 'skips', 'deliveries')
 group by 1
