-- How large the tables of a schema are that are copied: messages, and what is told of them in other tables is small.
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1 and c.relkind = 'r'
   and c.relname in ('messages', 'dead_letter_queue', 'message_traces', 'partition_consumers', 'partition_cursors')
