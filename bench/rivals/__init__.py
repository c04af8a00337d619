"""Queues beside ours, each behind the same few verbs (`bench/peers.py`)."""
