-- Where a message stands; removes it when it only waits, unless asked to look.
select queen.cancel_message($1, $2, $3, $4, $5) as state
