-- May this process run this tick of a service?
select queen.hold_service($1, $2, $3) as held
