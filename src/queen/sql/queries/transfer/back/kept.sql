-- All messages of partitions from which some were deleted by hand.
select f.former_id, m.id
  from (select distinct partition_id from skips where consumer_group = '*') s
  join former_partitions f on f.partition_id = s.partition_id
  left join messages m on m.partition_id = s.partition_id
