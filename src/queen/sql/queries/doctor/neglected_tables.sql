-- Tables of ours that autovacuum was told to leave alone, or does not keep up with.
select format('%I.%I', n.nspname, c.relname) as name, coalesce(s.n_dead_tup, 0) as dead, coalesce(s.n_live_tup, 0) as live,
       coalesce(c.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off'], false) as disabled
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_stat_user_tables s on s.relid = c.oid
 where n.nspname in ('queen', 'queen_durable') and c.relkind = 'r'
   and (c.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off']
        or (s.n_dead_tup > 100000 and s.n_dead_tup > 2 * s.n_live_tup))
 order by 1
