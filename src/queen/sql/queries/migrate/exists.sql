-- Tell whether the schema of the search path remembers any migrations.
select to_regclass('schema_migrations') is not null
