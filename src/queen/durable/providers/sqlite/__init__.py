"""The SQLite store: one file or memory, one writer at a time, one dedicated thread per process."""
