-- Takes back the timers of an execution that has ended.
delete from mailbox_messages
where queue = :queue and routing_key = :routing_key and name is not null and kind = 'TimerFiredMessage'
