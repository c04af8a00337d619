-- Promises: the statements of this transaction see one moment: the rows of a page, and what is missing among them.
-- Locks: nothing.
set transaction isolation level repeatable read read only
