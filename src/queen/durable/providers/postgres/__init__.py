"""The PostgreSQL store: its own schema, one round trip per call, any number of processes."""
