-- How many dead letters match, but no more than $8.
select count(*) as total from (
    select 1
      from queen.dead_letter_queue d
      join queen.queues q on q.id = d.queue_id
      join queen.partitions p on p.id = d.partition_id
     where d.redriven_at is null
       and ($1::text is null or q.name = $1) and ($2::text is null or d.consumer_group = $2) and ($3::text is null or p.name = $3)
       and ($4::text is null or position($4 in d.error_message) > 0)
       and ($5::timestamptz is null or d.failed_at >= $5) and ($6::timestamptz is null or d.failed_at <= $6)
       and ($7::text is null or coalesce(d.error_kind, queen.normalise_error(d.error_message)) = $7)
     limit $8
) x
