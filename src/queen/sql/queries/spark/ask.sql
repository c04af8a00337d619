-- Promises: the question of the next statement is known for the length of the transaction. A setting rather than parameters: the statement
--   can then travel as COPY, which is twice as fast. Plans go by indexes, whatever the statistics say; $3 off: rows meet
--   their partitions by hash, not one by one.
-- Locks: nothing.
select set_config('queen.ask', $1, true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('statement_timeout', $2, true),
       set_config('enable_nestloop', $3, true), set_config('work_mem', '64MB', true), set_config('max_parallel_workers_per_gather', '0', true),
       set_config('queen.ask_from', coalesce($1::jsonb ->> 'from', '0'), true), set_config('queen.ask_to', coalesce($1::jsonb ->> 'to', '0'), true),
       set_config('queen.ask_queues', coalesce(translate($1::jsonb ->> 'queues', '[]', '{}'), '{}'), true)
