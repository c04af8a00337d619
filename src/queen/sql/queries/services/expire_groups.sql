-- Forgets groups that nobody used for so many days.
select queen.expire_groups(make_interval(days => $1)) as removed
