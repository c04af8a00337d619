-- The source has its name again.
alter schema queen_v2 rename to queen
