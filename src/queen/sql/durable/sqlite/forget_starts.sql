-- Forgets starts that hold nobody back any more.
delete from starts where free_at <= :now
