-- Removes dead letters.
select queen.purge_dead_letters($1, $2, $3, $4, $5, $6) as purged
