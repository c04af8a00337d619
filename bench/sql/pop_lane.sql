-- One pop of a batch, on this connection.
select partition_id, first_seq + cardinality(message_ids) - 1 as last_seq
  from queen.pop_lanes($1, $2, array[$3::integer], array[1], array[$4::uuid]) where request = 1
