-- The queues of a namespace and/or task, in the order a pop tries them.
select name from queen.matching_queues($1, $2) as name
