-- Partitions made since the cutover get an id that the earlier schema can know them by.
insert into former_partitions (former_id, partition_id)
select gen_random_uuid(), p.id from partitions p where not exists (select from former_partitions f where f.partition_id = p.id)
