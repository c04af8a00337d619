-- The slow way for messages whose transaction ids are used twice in a partition: the first keeps its id, later ones get their own behind it.
insert into messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted, transaction_id, producer_sub, payload)
select i.partition_id, i.seq, i.pos, i.id, i.trace_id, i.parent_id, i.created_at, i.is_encrypted,
       case when i.again > 1 or exists (select from messages m where m.partition_id = i.partition_id and m.transaction_id = i.transaction_id)
            then i.transaction_id || '#' || i.id else i.transaction_id end, i.producer_sub, i.payload
  from (select x.*, row_number() over (partition by x.partition_id, x.transaction_id order by x.seq) as again from incoming_messages x) i
