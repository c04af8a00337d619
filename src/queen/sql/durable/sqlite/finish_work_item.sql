-- Deletes an item whose lock is live.
delete from work_items where lock_token = :token and ready_at > :now returning session_id
