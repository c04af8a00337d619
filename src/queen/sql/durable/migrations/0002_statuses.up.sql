-- Cancelled and parked have names of their own.
alter table queen_durable.executions drop constraint executions_status_check;
alter table queen_durable.executions add constraint executions_status_check
    check (status in ('Running', 'Completed', 'Failed', 'Cancelled', 'Parked', 'ContinuedAsNew'));

update queen_durable.executions set status = 'Cancelled' where status = 'Failed' and starts_with(output, 'canceled: ');
