-- How far the transfer is.
select version, source, phase, begun_at, copied_at, cut_at, returned_at, pause_ms, last_pos, last_dead_letter from queen_transfer.state
