-- Removes a group.
select queen.forget_group($1, $2, $3) as cursors
