-- Promises: removes a queue with everything in it; returns whether there was one. Deleting the row of queen.queues by hand does the same.
-- Locks: the queue row and, by cascade, all that belongs to it.
create or replace function queen.delete_queue(p_queue text) returns boolean
language plpgsql volatile as $$
begin
    delete from queen.queues where name = p_queue;
    return found;
end $$;
