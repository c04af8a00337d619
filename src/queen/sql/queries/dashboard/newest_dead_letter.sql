-- The number of the newest dead letter: those that come while others are redriven wait for the next time.
select coalesce(max(d.id), 0) as id from queen.dead_letter_queue d
