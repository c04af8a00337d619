-- The lakes this database is archived to: how far each is, how fresh, and how large it was after its newest archive run.
select a.lake::text as id, min(a.place) as place, max(a.updated_at) as updated_at, min(a.until) as until, max(a.pos) as pos,
       greatest((select h.position from queen.horizon h) - max(a.pos), 0) as missing,
       (run.figures ->> 'files')::bigint as files, (run.figures ->> 'bytes')::bigint as bytes, (run.figures ->> 'kept')::bigint as kept
  from queen.archive_positions a
  left join lateral (select r.figures from queen.pipeline_runs r
                      where r.pipeline = 'archive' and r.state = 'done' and r.figures ->> 'lake' = a.lake::text
                      order by r.started_at desc, r.id desc limit 1) run on true
 group by a.lake, run.figures
 order by 2
