-- Which of these queues take encrypted payloads only.
select name from queen.queues where name = any ($1) and encryption_enabled
