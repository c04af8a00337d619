"""The lake: Parquet files in a directory, and a manifest that says which of them count."""

from __future__ import annotations

from queen.spark.lake.directory import Lake

__all__ = ["Lake"]
