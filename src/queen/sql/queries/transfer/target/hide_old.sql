-- Until the end of this transaction the name queen is free; nobody else sees that.
alter schema queen rename to queen_hidden
