-- Keeps a report for who asks later.
insert into queen_transfer.reports (passed, report) values ($1, $2::jsonb)
