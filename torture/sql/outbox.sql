-- The rows of the application that were committed.
select name from torture.outbox
