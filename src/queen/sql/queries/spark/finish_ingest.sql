-- Promises: see queen.finish_ingest.
-- Locks: see queen.finish_ingest.
select queen.finish_ingest(j ->> 'sink', (j ->> 'batch')::bigint)::text as finished
  from (select current_setting('queen.ask')::jsonb as j) s
