-- Gives back the services of a process that stops.
select queen.release_services($1)
