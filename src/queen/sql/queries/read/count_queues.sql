-- How many queues match.
select count(*) as total from queen.queues q
 where ($1::text is null or q.namespace = $1) and ($2::text is null or q.task = $2)
   and ($3::text is null or position(lower($3) in lower(q.name)) > 0)
