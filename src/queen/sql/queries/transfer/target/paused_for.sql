-- The last change of sides took so many milliseconds.
update queen_transfer.state set pause_ms = $1
