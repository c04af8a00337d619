-- Promises: the statements of this transaction see what the one sees that exported the snapshot.
-- Locks: nothing.
set transaction snapshot '{snapshot}'
