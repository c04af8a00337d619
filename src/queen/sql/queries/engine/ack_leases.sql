-- Everything up to a seq is done, for whole leases. An entry that is acknowledged under a lease that goes on has no row: that spares
-- sending and reading it. The queue only where more waits: nobody else is to look for it otherwise.
select entry, status, case when more then queue_id end as queue_id from queen.move_cursors($1, $2, $3, $4, $5) where released or status <> 'acked'
