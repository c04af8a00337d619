-- The target has the partitions of the source (incoming_partitions), each known by its former id, and no others; queues that are gone go.
with born as (
    insert into partitions (queue_id, name, created_at, last_activity, idle_since)
    select q.id, i.name, i.created_at, i.last_activity, i.last_activity
      from incoming_partitions i join queues q on q.name = i.queue_name
     where not exists (select from former_partitions f where f.former_id = i.former_id)
     order by q.id, i.name
    returning id, queue_id, name
)
insert into former_partitions (former_id, partition_id)
select i.former_id, born.id from born join queues q on q.id = born.queue_id join incoming_partitions i on i.queue_name = q.name and i.name = born.name;

insert into queen_transfer.progress (former_id, expected) select former_id, expected from incoming_partitions on conflict do nothing;

create temporary table gone on commit drop as
select f.partition_id, f.former_id from former_partitions f where not exists (select from incoming_partitions i where i.former_id = f.former_id);
delete from messages m using gone where m.partition_id = gone.partition_id;
delete from queen_transfer.progress p using gone where p.former_id = gone.former_id;
delete from partitions p using gone where p.id = gone.partition_id;
truncate incoming_partitions;
