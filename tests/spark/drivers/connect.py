"""A thin client of Spark Connect: reads a queue, writes it to another, in batch and as a stream, and sums it up.

python connect.py URL DIRECTORY

What it sums up to is in `sums.json` of the directory afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from queen.spark.session import SETTINGS, environment
from tests.spark.support.sums import sums


def main(url: str, directory: Path) -> None:
    os.environ.update(environment("local"))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]").config("spark.driver.memory", "1g")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    messages = spark.read.format("queen").option("url", url).option("queue", "in").load()
    messages.select("partition", "payload").write.format("queen").mode("append").option("url", url).option(
        "queue", "batch-out"
    ).save()
    stream = spark.readStream.format("queen").option("url", url).option("queue", "in")
    rows = stream.option("startingOffsets", "earliest").load().select("partition", "payload")
    writer = rows.writeStream.format("queen").option("url", url).option("queue", "stream-out")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    (directory / "sums.json").write_text(json.dumps(sums(spark, url, "in")))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
