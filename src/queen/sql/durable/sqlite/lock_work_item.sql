-- Hands an item out until :locked_until and counts the attempt.
update work_items
set lock_token = :token, ready_at = :locked_until, locked_at = :now, attempts = attempts + 1
where id = :id
returning body, attempts, instance, execution_id, activity_id
