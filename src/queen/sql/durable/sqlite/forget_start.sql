-- Forgets a start.
delete from starts where id = :id
