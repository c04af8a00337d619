-- Lets other connections see exactly what this transaction sees.
select pg_export_snapshot()
