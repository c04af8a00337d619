-- Name, for the rest of the transaction, the objects that drop_objects shall drop.
select set_config('queen.obsolete_objects', ($1::text[])::text, true)
