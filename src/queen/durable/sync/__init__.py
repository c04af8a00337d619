"""The synchronous face of durable workflows: generator style, name-compatible with duroxide-python."""
