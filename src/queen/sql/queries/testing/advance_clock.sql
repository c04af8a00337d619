-- Moves the clock of the tests on, and wakes whoever waits.
with moved as (
    insert into queen.settings (key, value)
    values ('testing.clock', jsonb_build_object('seconds', $1::double precision))
    on conflict (key) do update
       set value = jsonb_build_object('seconds', (settings.value ->> 'seconds')::double precision + $1::double precision)
    returning 1
)
select pg_notify('queen', (select coalesce(string_agg(id::text, ','), '') from queen.queues)) from moved
