"""Worker processes that are killed while they work."""
