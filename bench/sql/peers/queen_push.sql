-- The payloads of one call, each to its partition.
select queen.push_many('bench', $1, $2)
