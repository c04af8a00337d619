"""Figures of a queue that any session must come to, wherever it runs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def sums(spark: SparkSession, url: str, queue: str) -> list[list[Any]]:
    """Counts, sums and medians by partition."""
    messages = spark.read.format("queen").option("url", url).option("queue", queue).load()
    numbers = messages.select("partition", "seq", F.get_json_object("payload", "$.n").cast("int").alias("n"))
    found = numbers.groupBy("partition").agg(
        F.count("*"), F.sum("n"), F.max("seq"), F.percentile("n", 0.5), F.countDistinct("n")
    )
    return [list(row) for row in found.orderBy("partition").collect()]
