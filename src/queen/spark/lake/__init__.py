"""The lake: Delta tables, which any engine reads, and what they promise together."""

from __future__ import annotations

from queen.spark.lake.lake import Lake

__all__ = ["Lake"]
