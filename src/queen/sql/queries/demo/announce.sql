-- Promises: the commit horizon waits for this transaction before it passes the messages it stores.
-- Locks: as queen.announce.
select queen.announce()
