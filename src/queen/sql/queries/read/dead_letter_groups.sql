-- Dead letters not yet redriven, grouped by what their errors have in common, the most frequent first.
select coalesce(d.error_kind, queen.normalise_error(d.error_message)) as error, count(*) as dead_letters, min(d.failed_at) as first_failed_at,
       max(d.failed_at) as last_failed_at, array_agg(distinct q.name) as queues, array_agg(distinct d.consumer_group) as consumer_groups,
       (array_agg(d.id order by d.id desc))[1] as newest, (array_agg(d.error_message order by d.id desc))[1] as sample
  from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id
 where d.redriven_at is null and ($1::text is null or q.name = $1) and ($2::text is null or d.consumer_group = $2)
 group by 1
 order by 2 desc, 4 desc
 limit $3
