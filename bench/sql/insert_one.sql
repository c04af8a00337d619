-- One bare row, committed by itself.
insert into bare.messages (partition_id, seq, pos, id, created_at, transaction_id, payload) values ($1, $2, $2, $3, now(), $4, $5)
