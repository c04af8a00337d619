-- Gives a locked item back, visible from :visible_at.
update work_items
set lock_token = null, ready_at = :visible_at, attempts = max(0, attempts - :uncount)
where lock_token = :token and ready_at > :now
