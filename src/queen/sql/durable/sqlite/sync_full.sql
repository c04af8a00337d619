-- Commits wait for the disk.
pragma synchronous = full
