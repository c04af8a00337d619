-- Promises: raises INVALID_<field> unless the value is within the bounds.
-- Locks: nothing.
create or replace function queen.require_number(p_field text, p_value bigint, p_least bigint, p_most bigint) returns void
language plpgsql immutable as $$
begin
    if p_value is null or p_value not between p_least and p_most then
        perform queen.raise_error('INVALID_' || upper(p_field), format('%s must be between %s and %s', p_field, p_least, p_most));
    end if;
end $$;
