-- Fails outside a transaction.
savepoint queen_push
