-- A batch of one partition.
select lease_id, payload from queen.pop('bench', $1)
