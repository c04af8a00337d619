-- Takes a message off the schedule.
delete from queen.scheduled_messages where id = $1 returning id
