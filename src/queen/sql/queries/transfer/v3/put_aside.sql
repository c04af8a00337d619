-- The source steps aside, whole: what still asks for the schema queen no longer finds these tables.
alter schema queen rename to queen_v3
