-- The names events were noted under, the most recent first.
select n.trace_name, count(*) as traces, count(distinct t.message_id) as messages, max(t.created_at) as last_seen,
       count(*) over () as total
  from queen.trace_names n join queen.traces t on t.id = n.trace_id
 group by n.trace_name
 order by max(t.id) desc
 limit $1 offset $2
