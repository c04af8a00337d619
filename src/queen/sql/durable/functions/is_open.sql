-- Promises: whether an owner may have the items of a session now: no session always; with an owner a free one, or its own.
-- Locks: nothing.
create or replace function queen_durable.is_open(p_session text, p_owner text, p_now bigint) returns boolean
language sql stable as $$
    select p_session is null or (p_owner is not null and not exists (
        select from queen_durable.sessions s
        where s.session_id = p_session and s.locked_until > p_now and s.owner <> p_owner
    ))
$$;
