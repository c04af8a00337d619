-- What waits for a place may run at once.
update queen_durable.work_items w set ready_at = p.wanted_at
from queen_durable.places p
where p.instance = w.instance and p.execution_id = w.execution_id and p.activity_id = w.activity_id and p.ready_at is null;

alter type queen_durable.task_row drop attribute limited;
alter table queen_durable.work_items drop column limited;
drop table queen_durable.starts;
drop table queen_durable.places;
