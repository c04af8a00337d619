-- Time limits for the rest of this transaction.
select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)
