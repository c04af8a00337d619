-- Undoes one operation of a shared transaction.
rollback to operation
