-- Starts an operation inside a shared transaction.
savepoint operation
