-- Every lease and step of a cursor, in order.
select partition_id, consumer_group, cursor_was, cursor_is, lease_was::text as lease_was, lease_is::text as lease_is, expired, batch_from,
       batch_to, counted_to, retry_count, delivery_count, extract(epoch from at)::float8 as at
  from torture.steps order by n
