-- The source has its name again.
alter schema queen_v3 rename to queen
