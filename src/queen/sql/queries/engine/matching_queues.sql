-- Queues of a namespace and/or task that may have something for a group, in the order a pop tries them.
select name from queen.matching_queues($1, $2, $3) as name
