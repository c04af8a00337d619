-- Extends live locks and answers the lost tokens; see functions/renew_work_items.sql.
select queen_durable.renew_work_items($1, $2, $3)
