-- Queues with a maximum wait.
select id from queen.queues where max_wait_time_seconds > 0 order by id
