-- A batch is done.
select pgmq.delete('bench', $1::bigint[])
