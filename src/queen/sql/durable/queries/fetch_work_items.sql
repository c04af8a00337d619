-- Locks work items; see functions/fetch_work_items.sql.
select * from queen_durable.fetch_work_items($1, $2, $3, $4, $5, $6, $7, true)
