"""The replay engine: pure functions of events, no clock, no store, no threads."""
