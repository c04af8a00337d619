-- The run of a pipeline whose results are shown: $2, or the newest that ended well.
select r.id, r.pipeline, r.state, r.lake, r.master, r.period_start, r.period_end, r.options, r.versions, r.rows, r.lag, r.figures, r.progress,
       r.error, r.started_at, r.finished_at, r.heartbeat_at
  from queen.pipeline_runs r
 where r.pipeline = $1 and (r.id = $2::uuid or $2::uuid is null and r.state = 'done')
 order by r.started_at desc, r.id desc limit 1
