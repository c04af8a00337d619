-- The traces of the partitions that are in incoming_traces or $1 are those that arrived.
with old as (delete from traces t where t.partition_id = any ($1::bigint[])),
numbered as materialized (select nextval('traces_id_seq') as trace_id, i.* from (select * from incoming_traces order by created_at) i),
stored as (
    insert into traces (id, partition_id, transaction_id, message_id, consumer_group, event_type, data, created_at) overriding system value
    select n.trace_id, n.partition_id, n.transaction_id, n.message_id, n.consumer_group, n.event_type, coalesce(n.data, '{}'), n.created_at
      from numbered n
)
insert into trace_names (trace_name, trace_id) select t.name, n.trace_id from numbered n cross join unnest(n.names) t(name)
