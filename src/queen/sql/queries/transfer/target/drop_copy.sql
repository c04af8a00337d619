-- The copy and what the transfer remembered go.
drop schema if exists queen_next cascade;
drop schema if exists queen_transfer cascade
