-- Finishes work items; see functions/ack_work_items.sql.
select held from queen_durable.ack_work_items($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
