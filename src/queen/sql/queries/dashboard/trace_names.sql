-- The names the newest 2 000 events were noted under, the most recent first.
select n.trace_name as name, count(*) as traces, count(distinct t.message_id) as messages, max(t.created_at) as last_seen
  from (select x.id, x.message_id, x.created_at from queen.traces x order by x.id desc limit 2000) t
  join queen.trace_names n on n.trace_id = t.id
 group by n.trace_name
 order by max(t.id) desc
 limit $1
