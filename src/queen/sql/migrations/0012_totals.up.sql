-- Totals over all queues that never fall, whatever is deleted.

create table queen.totals (
    pushed bigint not null,
    popped bigint not null,
    acked  bigint not null,
    failed bigint not null
);
create unique index totals_is_one_row on queen.totals ((true));

comment on table queen.totals is 'one row: all that was counted ever, also of queues, partitions and groups that are deleted';

insert into queen.totals (pushed, popped, acked, failed)
select coalesce(sum(pushed), 0), coalesce(sum(popped), 0), coalesce(sum(acked), 0), coalesce(sum(failed), 0) from queen.stats_totals;

-- A deleted queue leaves what its partitions and groups had; less what was counted of it, that is what is still to be counted.
create function queen.correct_totals() returns trigger
language plpgsql as $$
begin
    insert into queen.stats_corrections (queue_id, pushed, popped, acked, failed)
    select gone.queue_id, -gone.pushed, -gone.popped, -gone.acked, -gone.failed from gone;
    return null;
end $$;

create trigger correct_totals
after delete on queen.stats_totals
referencing old table as gone
for each statement execute function queen.correct_totals();
