-- Lets every verb of this database go by a clock that is ahead by what queen.settings says.
create or replace function queen.clock() returns timestamptz
language sql volatile parallel restricted as $$
    select clock_timestamp() + coalesce(
        (select make_interval(secs => (s.value ->> 'seconds')::double precision) from queen.settings s where s.key = 'testing.clock'),
        interval '0')
$$
