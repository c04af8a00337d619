-- From when the longest-waiting item may be handed out.
select min(ready_at) from work_items
