-- Which partition took the place of one that an earlier schema knew by a UUID: clients hold such ids when they acknowledge.
create table queen.former_partitions (
    former_id    uuid primary key,
    partition_id bigint not null references queen.partitions (id) on delete cascade
);

create index former_partitions_by_partition on queen.former_partitions (partition_id);
