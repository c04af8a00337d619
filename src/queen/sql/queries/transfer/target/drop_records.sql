-- What the transfer remembered goes; the ids clients may still hold stay in queen.former_partitions.
drop schema if exists queen_transfer cascade
