"""The synchronous client. Written by scripts/sync_client.py."""
