-- Promises: see queen.prepare_ingest.
-- Locks: see queen.prepare_ingest.
select queen.prepare_ingest(j ->> 'sink', (j ->> 'batch')::bigint, array(select jsonb_array_elements_text(j -> 'stages')::bigint),
                            (j ->> 'rows')::bigint)::text as plan
  from (select current_setting('queen.ask')::jsonb as j) s
