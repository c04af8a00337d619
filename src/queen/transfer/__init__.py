"""Moving a system of an earlier schema (v2, v3) to this one: planned, live, verified, and back again."""
