-- Every message that was stored, by partition.
select s.partition_id, s.seq, s.name, s.id::text as id, s.parent_id::text as parent_id, extract(epoch from s.at)::float8 as at
  from torture.stored s order by s.n
