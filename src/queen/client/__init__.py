"""The Python SDK: one client, over HTTP or straight on the database. Its names are exported by `queen`."""
