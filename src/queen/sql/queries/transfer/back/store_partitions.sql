-- The source has the partitions of the target: new ones are made, and those that are gone go with their messages.
insert into partitions (id, queue_id, name, created_at, last_activity)
select b.former_id, q.id, b.name, b.created_at, b.last_activity from back_partitions b join queues q on q.name = b.queue_name
    on conflict (id) do nothing;
delete from partitions p where not exists (select from back_partitions b where b.former_id = p.id);
delete from queues q where not exists (select from partitions p where p.queue_id = q.id) and not exists (select from back_partitions b where b.queue_name = q.name)
   and q.name <> all (select queue_name from back_groups);
