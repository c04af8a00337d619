-- Names without a schema mean the side's own from now on.
select set_config('search_path', $1, false)
