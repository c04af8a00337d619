"""The tables that the analyses read from the lake."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from queen.spark.pipelines.definition import Context

TABLES: Final = ("messages", "deliveries", "dead_letters")
PART: Final = 16 << 20


def read_tables(context: Context) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Messages, deliveries and dead letters of the lake."""
    state = context.lake.state()
    size_shuffles(context.spark, sum(file.bytes for table in TABLES for file in state.of(table)))
    messages, deliveries, letters = (context.lake.read(context.spark, table, state.of(table)) for table in TABLES)
    return messages, deliveries, letters


def size_shuffles(spark: SparkSession, size: int) -> None:
    """Give shuffles as many parts as the bytes that are read and the cores ask for.

    Spark's 200 parts would be 200 tasks of nothing in each step of a small lake.
    """
    parts = max(spark.sparkContext.defaultParallelism, size // PART + 1)
    spark.conf.set("spark.sql.shuffle.partitions", str(parts))
