-- From when the longest-waiting item may be handed out.
select min(ready_at) from work_items where ready_at < 9000000000000000
