-- Switches one maintenance mode ($1: push or pop) on or off and returns both.
insert into queen.settings as s (key, value, updated_at)
values ('maintenance', jsonb_build_object($1::text, $2::boolean), clock_timestamp())
    on conflict (key) do update set value = s.value || excluded.value, updated_at = excluded.updated_at
returning coalesce((s.value -> 'push')::boolean, false) as push, coalesce((s.value -> 'pop')::boolean, false) as pop
