-- Readers do not block the writer, nor the writer readers.
pragma journal_mode = wal
