-- Commits do not wait for the disk: safe against a crash of the process, not against a power failure.
pragma synchronous = normal
