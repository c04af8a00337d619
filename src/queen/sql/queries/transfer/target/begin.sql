-- The transfer begins: $1 version, $2 which source.
insert into queen_transfer.state (version, source, phase) values ($1, $2, 'copying') on conflict do nothing
