-- One bare cursor update, committed by itself: the least an acknowledgement can cost.
update bare.cursors set seq = seq + 1 where id = $1
