-- Promises: nothing is pushed to the partitions until this transaction ends; returns their queues and heads in the order given.
-- Locks: the partition rows by id (R1).
with locked as materialized (
    select p.id, p.queue_id, p.next_seq from queen.partitions p where p.id = any ($1::bigint[]) order by p.id for no key update
)
select l.id, l.queue_id, l.next_seq
  from unnest($1::bigint[]) with ordinality n(id, place) join locked l on l.id = n.id
 order by n.place
