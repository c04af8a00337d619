-- Promises: the part of an error text that stays the same from case to case: ids, numbers, addresses and quoted parts become <id>, <n>, <x>.
--   Only the first line counts, cut to 200 characters.
-- Locks: nothing.
create or replace function queen.normalise_error(p_error text) returns text
language sql immutable parallel safe as $$
    select left(regexp_replace(regexp_replace(regexp_replace(regexp_replace(split_part(p_error, e'\n', 1),
        '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', '<id>', 'gi'),
        '0x[0-9a-f]+', '<x>', 'gi'),
        '''[^'']*''|"[^"]*"', '<x>', 'g'),
        '\d+([.,:]\d+)*', '<n>', 'g'), 200)
$$;
