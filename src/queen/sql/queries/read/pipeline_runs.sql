-- The runs of a pipeline, newest first. $3 and $4: after this place (keyset).
select r.id, r.pipeline, r.state, r.lake, r.master, r.period_start, r.period_end, r.options, r.versions, r.rows, r.lag, r.figures, r.progress,
       r.error, r.started_at, r.finished_at, r.heartbeat_at
  from queen.pipeline_runs r
 where r.pipeline = $1 and ($3::timestamptz is null or (r.started_at, r.id) < ($3, $4::uuid))
 order by r.started_at desc, r.id desc limit $2
