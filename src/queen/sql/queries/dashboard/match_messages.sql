-- Of the newest $6 messages that match (queue, partition, status, since, until) those whose payload contains a text, at most $8.
select b.*
  from queen.browse_messages($1, $2, null, null, $3, $4, $5, $6) b
  join queen.messages m on m.partition_id = b.partition_id and m.seq = b.seq
 where position(lower($7) in lower(m.payload::text)) > 0
 order by b.created_at desc, b.partition_id desc, b.seq desc limit $8
