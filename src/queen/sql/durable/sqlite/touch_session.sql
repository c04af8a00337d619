-- Notes that a session was active.
update sessions set last_activity_at = :now where session_id = :session_id
