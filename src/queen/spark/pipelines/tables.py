"""The tables that the analyses read from the lake."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from queen.spark.pipelines.definition import Context

TABLES: Final = ("messages", "deliveries", "dead_letters")
PART: Final = 16 << 20


def read_tables(context: Context) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Messages, deliveries and dead letters of the lake; shuffles get as many parts as its size and the cores ask for.

    Spark's 200 parts would be 200 tasks of nothing in each step of a small lake.
    """
    state = context.lake.state()
    size = sum(file.bytes for table in TABLES for file in state.of(table))
    parts = max(context.spark.sparkContext.defaultParallelism, size // PART + 1)
    context.spark.conf.set("spark.sql.shuffle.partitions", str(parts))
    messages, deliveries, letters = (context.lake.read(context.spark, table) for table in TABLES)
    return messages, deliveries, letters
