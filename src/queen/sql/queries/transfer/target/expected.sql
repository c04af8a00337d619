-- How many messages there are to copy; with $1 only of partitions that are not copied yet.
select coalesce(sum(expected), 0)::bigint from queen_transfer.progress where not (copied and $1)
