-- Everything up to a seq is done, for whole leases. An entry that is acknowledged under a lease that goes on has no row: that spares
-- sending and reading it.
select entry, status, queue_id from queen.move_cursors($1, $2, $3, $4, $5) where released or status <> 'acked'
