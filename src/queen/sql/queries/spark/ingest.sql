-- Promises: see queen.ingest.
-- Locks: see queen.ingest.
select i.stored, i.duplicates, i.scheduled
  from (select current_setting('queen.ask')::jsonb as j) s,
       queen.ingest(s.j ->> 'sink', (s.j ->> 'batch')::bigint, array(select jsonb_array_elements_text(s.j -> 'stages')::bigint),
                    array(select jsonb_array_elements_text(s.j -> 'parts')::bigint),
                    array(select jsonb_array_elements_text(s.j -> 'places')::integer), (s.j ->> 'total')::integer) i
