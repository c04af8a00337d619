-- Promises: raises INVALID_<field> unless the value is a name: 1 to 512 bytes.
-- Locks: nothing.
create or replace function queen.require_name(p_field text, p_value text) returns void
language plpgsql immutable as $$
begin
    if p_value is null or p_value = '' or octet_length(p_value) > 512 then
        perform queen.raise_error('INVALID_' || upper(p_field), format('%s must be a name of 1 to 512 bytes', p_field));
    end if;
end $$;
