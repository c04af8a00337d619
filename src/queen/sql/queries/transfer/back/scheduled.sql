-- How many messages wait for their time: the earlier schemas have no place for them.
select count(*) from scheduled_messages
