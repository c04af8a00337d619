-- The time every verb goes by.
select queen.clock() as now
