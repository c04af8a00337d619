-- Promises: the partitions after an id, with how many messages each holds (by arithmetic on seq); at most 10 000.
-- Locks: nothing.
select p.id, q.name as queue, p.name as partition, p.next_seq - p.first_seq as n
  from (select (current_setting('queen.ask')::jsonb ->> 'after')::bigint as after) a
  join queen.partitions p on p.id > a.after
  join queen.queues q on q.id = p.queue_id
 order by p.id limit 10000
