-- Cancelled was failed, and nothing was parked.
update queen_durable.executions set status = 'Failed' where status = 'Cancelled';
update queen_durable.executions set status = 'Running', output = null where status = 'Parked';

alter table queen_durable.executions drop constraint executions_status_check;
alter table queen_durable.executions add constraint executions_status_check
    check (status in ('Running', 'Completed', 'Failed', 'ContinuedAsNew'));
