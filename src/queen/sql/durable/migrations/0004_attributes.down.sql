-- Instances are no longer found by their attributes quickly; the attributes stay.
drop index queen_durable.kv_delta_attributes;
drop index queen_durable.kv_store_attributes;
