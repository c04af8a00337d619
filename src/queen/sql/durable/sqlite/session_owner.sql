-- Who holds a session now.
select owner from sessions where session_id = :session_id and locked_until > :now
