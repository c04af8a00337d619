-- Promises: raises INVALID_PARTITION or INVALID_TRANSACTION_ID unless these are what a message may have (null: none given).
-- Locks: nothing.
create or replace function queen.require_item(p_partition text, p_transaction_id text) returns void
language plpgsql immutable as $$
begin
    if octet_length(p_partition) > 512 then
        perform queen.raise_error('INVALID_PARTITION', 'partition must be a name of at most 512 bytes');
    end if;
    if char_length(p_transaction_id) not between 1 and 255 then
        perform queen.raise_error('INVALID_TRANSACTION_ID', 'transaction_id must have 1 to 255 characters');
    end if;
end $$;
