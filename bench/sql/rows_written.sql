-- Rows inserted and updated so far by acknowledgements of either way.
select coalesce(sum(n_tup_ins + n_tup_upd), 0)::bigint as rows from pg_stat_user_tables
 where (schemaname = 'queen' and (relname = 'partition_consumers' or relname like 'deliveries%'))
    or (schemaname = 'bare' and relname in ('messages_status', 'partition_cursors', 'partition_leases'))
