-- Whether PostgreSQL counts what statements cost.
select to_regclass('pg_stat_statements') is not null as there
