"""Found by PySpark on its own: makes the format `queen` known wherever the package is installed."""

from __future__ import annotations

from queen.spark.datasource import QueenDataSource as DefaultSource

__all__ = ["DefaultSource"]
