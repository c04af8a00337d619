-- Everything under a lease is done.
select queen.ack($1)
