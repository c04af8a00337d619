-- How much there is: queues, and messages kept.
select (select count(*) from queen.queues) as queues,
       (select coalesce(sum(next_seq - first_seq), 0)::bigint from queen.partitions) as messages
