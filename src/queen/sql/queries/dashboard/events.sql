-- What happened lately, newest first, at most $1 of each kind: acts, dead letters, services that failed, messages that retention removed,
-- queues that came, pipelines that ended.
(select a.at, 'act' as kind, a.text, a.subject as who, a.queue from queen.audit a order by a.id desc limit $1)
 union all
(select max(d.failed_at), 'dead letters', count(*) || case when count(*) = 1 then ' dead letter: ' else ' dead letters: ' end
        || left((array_agg(d.error_message order by d.id desc))[1], 200), d.consumer_group, q.name
   from (select x.* from queen.dead_letter_queue x order by x.id desc limit 200) d
   join queen.queues q on q.id = d.queue_id
  group by q.name, d.consumer_group, coalesce(d.error_kind, queen.normalise_error(d.error_message)), date_bin('10 minutes', d.failed_at, timestamptz '1970-01-01 00:00:00+00')
  order by 1 desc limit $1)
 union all
(select s.last_error_at, 'service', s.service || ' failed: ' || left(s.last_error, 200), s.holder, null
   from queen.service_leases s where s.last_error_at is not null order by 1 desc limit $1)
 union all
(select max(h.executed_at), 'retention', sum(h.messages_removed) || ' messages removed: ' || h.retention_type, null, q.name
   from (select x.* from queen.retention_history x order by x.executed_at desc limit 200) h
   join queen.queues q on q.id = h.queue_id
  group by q.name, h.retention_type, date_bin('10 minutes', h.executed_at, timestamptz '1970-01-01 00:00:00+00')
  order by 1 desc limit $1)
 union all
(select q.created_at, 'queue', 'the queue was made', null, q.name from queen.queues q order by q.created_at desc limit $1)
 union all
(select r.finished_at, 'pipeline', r.pipeline || ' ' || r.state || case when r.error is null then '' else ': ' || left(r.error, 200) end, null, null
   from (select x.* from queen.pipeline_runs x where x.finished_at is not null order by x.finished_at desc limit $1) r)
 order by 1 desc limit $1
