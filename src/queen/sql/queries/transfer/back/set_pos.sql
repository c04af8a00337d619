-- Everything up to this pos is written back.
update queen_transfer.state set last_pos = $1
