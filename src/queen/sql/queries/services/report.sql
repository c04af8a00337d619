-- How a tick of a service ended.
select queen.report_service($1, $2, $3, $4)
