-- The last report.
select passed, made_at, report::text from queen_transfer.reports order by id desc limit 1
