-- Our tables: size, live and dead rows, how much came from memory, when they were last cleaned.
select t.relname as name, pg_total_relation_size(t.relid) as size, pg_indexes_size(t.relid) as index_size, t.n_live_tup as live_rows,
       t.n_dead_tup as dead_rows, t.n_tup_ins as inserted, t.n_tup_upd as updated, t.n_tup_hot_upd as hot_updated, t.n_tup_del as deleted,
       t.last_vacuum, t.last_autovacuum, t.last_autoanalyze,
       case when io.heap_blks_hit + io.heap_blks_read > 0
            then io.heap_blks_hit::double precision / (io.heap_blks_hit + io.heap_blks_read) end as cache_hit_ratio
  from pg_stat_user_tables t join pg_statio_user_tables io using (relid)
 where t.schemaname = 'queen' order by pg_total_relation_size(t.relid) desc, t.relname limit 100
