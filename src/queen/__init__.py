"""Ordered queues, durable workflows and a Spark data pipeline on PostgreSQL."""

__version__ = "0.1.0"
