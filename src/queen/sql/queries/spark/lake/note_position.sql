-- Promises: a lake holds a table up to here; never moves back.
-- Locks: the row of the lake and table.
insert into queen.archive_positions as p (lake, source, place, pos, until, updated_at)
select (j ->> 'lake')::uuid, j ->> 'source', j ->> 'place', (j ->> 'pos')::bigint, (j ->> 'until')::timestamptz, clock_timestamp()
  from (select current_setting('queen.ask')::jsonb as j) s
    on conflict (lake, source) do update
   set pos = greatest(p.pos, excluded.pos), until = greatest(p.until, excluded.until), place = excluded.place, updated_at = excluded.updated_at
returning pos
