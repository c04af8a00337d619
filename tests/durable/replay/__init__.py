"""The replay engine, driven by tables of events."""
