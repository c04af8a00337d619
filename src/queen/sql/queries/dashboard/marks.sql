-- The newest $3 acts since $2 that may bend a line of a chart, on one queue ($1) or on any.
select a.at, a.act, a.queue from queen.audit a
 where a.at >= $2 and ($1::text is null or a.queue = $1) and a.act in ('pause', 'resume', 'configure', 'seek', 'clear', 'maintenance', 'redrive')
 order by a.at desc limit $3
