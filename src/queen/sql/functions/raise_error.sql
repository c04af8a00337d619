-- Promises: always raises. Every refusal of a verb goes through here: SQLSTATE QU001, the code callers branch on in DETAIL, figures as
--   JSON in HINT.
-- Locks: nothing.
create or replace function queen.raise_error(p_code text, p_message text, p_figures jsonb default null) returns void
language plpgsql as $$
begin
    raise exception using
        errcode = 'QU001', message = p_message, detail = p_code, hint = coalesce(p_figures::text, '');
end $$;
