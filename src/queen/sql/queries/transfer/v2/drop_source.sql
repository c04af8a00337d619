-- The earlier tables and what was told of them are no longer needed.
drop schema if exists queen_v2 cascade;
drop schema if exists queen_transfer cascade
