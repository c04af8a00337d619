-- Promises: an analysis remembers this of a lake, and nothing else.
-- Locks: the row.
insert into queen.pipeline_state (lake, name, value)
select (a.j ->> 'lake')::uuid, a.j ->> 'analysis', a.j -> 'value' from (select current_setting('queen.ask')::jsonb as j) a
    on conflict (lake, name) do update set value = excluded.value
returning name
