-- Extends a live lock.
update work_items set ready_at = :locked_until
where lock_token = :token and ready_at > :now
returning session_id
