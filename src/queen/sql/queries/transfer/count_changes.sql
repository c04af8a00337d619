-- How many changes wait to be applied.
select count(*) from queen_transfer.changes
