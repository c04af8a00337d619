-- The schema queen steps back to where the copy was.
alter schema queen rename to queen_next
