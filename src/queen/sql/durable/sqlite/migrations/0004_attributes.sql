-- Attributes are keys by which instances are found.
create index kv_store_attributes on kv_store (key, value, instance)
    where key >= 'queen.attribute:' and key < 'queen.attribute;';
create index kv_delta_attributes on kv_delta (key, value, instance)
    where key >= 'queen.attribute:' and key < 'queen.attribute;';

pragma user_version = 4;
