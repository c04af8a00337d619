-- Promises: the question of the next statement is known for the length of the transaction. A setting rather than parameters: the statement
--   can then travel as COPY, which is twice as fast. Plans go by indexes, whatever the statistics say.
-- Locks: nothing.
select set_config('queen.ask', $1, true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('statement_timeout', $2, true),
       set_config('work_mem', '64MB', true), set_config('max_parallel_workers_per_gather', '0', true)
