-- Takes the write lock at the start, so that no read has to be upgraded later.
begin immediate
