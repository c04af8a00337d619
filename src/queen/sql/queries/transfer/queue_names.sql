-- The names of the queues.
select name::text from queues
