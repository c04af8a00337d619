-- The newest $1 dead letters not yet redriven, grouped by what their errors have in common, the most frequent first.
select coalesce(d.error_kind, queen.normalise_error(d.error_message)) as error, count(*) as dead_letters,
       count(*) filter (where d.failed_at > (select queen.clock()) - interval '1 hour') as lately,
       min(d.failed_at) as first_failed_at, max(d.failed_at) as last_failed_at, array_agg(distinct d.queue_id) as queue_ids,
       array_agg(distinct d.consumer_group) as consumer_groups, max(d.id) as newest, (array_agg(d.error_message order by d.id desc))[1] as sample
  from (select x.* from queen.dead_letter_queue x where x.redriven_at is null order by x.id desc limit $1) d
 group by 1
 order by 2 desc, 5 desc
 limit 200
