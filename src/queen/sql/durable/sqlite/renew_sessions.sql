-- Extends sessions of an owner that are live and were active since :active_since.
update sessions set locked_until = :locked_until
where owner = :owner and locked_until > :now and last_activity_at > :active_since
