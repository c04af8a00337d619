-- Opens one snapshot to read from.
begin
