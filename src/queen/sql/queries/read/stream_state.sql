-- State of a stream query in one partition, by key.
select s.key, s.value, s.updated_at
  from queen.stream_state s
 where s.query_id = $1 and s.partition_id = $2
   and ($3::text[] is null or s.key = any ($3))
   and ($4::text is null or starts_with(s.key, $4))
   and ($5::double precision is null or case when jsonb_typeof(s.value -> 'windowEnd') = 'number'
                                             then (s.value ->> 'windowEnd')::numeric <= $5::numeric else false end)
 order by s.key collate "C"
