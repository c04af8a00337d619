"""Queues as tables to PySpark: `spark.read`, `readStream`, `write` and `writeStream` with format `queen`."""

from __future__ import annotations

from queen.spark.datasource import QueenDataSource, register
from queen.spark.errors import SparkError
from queen.spark.session import session

__all__ = ["QueenDataSource", "SparkError", "register", "session"]
