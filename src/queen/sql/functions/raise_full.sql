-- Promises: always raises QUEUE_FULL, with the figures.
-- Locks: nothing.
create or replace function queen.raise_full(p_queue text, p_depth bigint, p_limit bigint) returns void
language sql volatile as $$
    select queen.raise_error('QUEUE_FULL', format('queue %L is full: %s of %s messages', p_queue, p_depth, p_limit),
                             jsonb_build_object('queue', p_queue, 'depth', p_depth, 'limit', p_limit))
$$;
