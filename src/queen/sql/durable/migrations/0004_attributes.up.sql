-- Attributes are keys by which instances are found.
create index kv_store_attributes on queen_durable.kv_store (key, value, instance)
    where starts_with(key, 'queen.attribute:');
create index kv_delta_attributes on queen_durable.kv_delta (key, value, instance)
    where starts_with(key, 'queen.attribute:');
