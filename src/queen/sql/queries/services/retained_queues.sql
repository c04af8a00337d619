-- Queues that retention applies to.
select id from queen.queues where retention_enabled and (retention_seconds > 0 or completed_retention_seconds > 0) order by id
