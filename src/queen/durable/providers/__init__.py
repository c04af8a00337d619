"""Stores for durable instances: one SQLite file, or a schema in PostgreSQL."""
