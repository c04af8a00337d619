-- Gives a place to who waits for it.
update places set ready_at = :ready_at where id = :id
