-- Promises: the dead letters that match every filter given (null = any), newest first. p_count_all: also those redriven.
-- Locks: nothing.
create or replace function queen.select_dead_letters(
    p_ids bigint[], p_queue text, p_group text, p_error text, p_before timestamptz, p_limit integer, p_all boolean
) returns setof queen.dead_letter_queue
language sql stable as $$
    select d.*
      from queen.dead_letter_queue d
      join queen.queues q on q.id = d.queue_id
     where (p_ids is null or d.id = any (p_ids))
       and (p_queue is null or q.name = p_queue)
       and (p_group is null or d.consumer_group = p_group)
       and (p_error is null or position(p_error in d.error_message) > 0)
       and (p_before is null or d.failed_at < p_before)
       and (p_all or d.redriven_at is null)
     order by d.id desc
     limit p_limit
$$;
