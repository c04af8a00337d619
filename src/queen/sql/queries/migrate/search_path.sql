-- Say, for the rest of the transaction, which schema unqualified names belong to ('' for none).
select set_config('search_path', $1, true)
