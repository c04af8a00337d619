-- Ends an operation inside a shared transaction.
release operation
