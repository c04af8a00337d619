-- The earlier schema has its name again.
alter schema queen_hidden rename to queen
