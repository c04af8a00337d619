-- Removes acts from the audit log that are older than so many days.
select queen.prune_audit(make_interval(days => $1)) as count
