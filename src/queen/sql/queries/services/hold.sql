-- May this process run this tick of a service, and is the service late?
select * from queen.hold_service($1, $2, $3)
