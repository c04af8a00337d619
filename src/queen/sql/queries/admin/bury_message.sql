-- Moves a message to the dead letters of a group.
select queen.bury_message($1, $2, $3, $4) as dead_letter_id
