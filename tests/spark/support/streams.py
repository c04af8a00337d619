"""Streams that tests start and look into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.support.queues import Queues

LIMIT = 90


def stream(spark: SparkSession, queues: Queues, **options: object) -> DataFrame:
    """A queue as a stream, from its beginning unless said otherwise."""
    reader = spark.readStream.format("queen").option("url", queues.url).option("startingOffsets", "earliest")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


class Batches:
    """What a stream delivers, batch by batch."""

    def __init__(self) -> None:
        self.rows: list[list[tuple[str, int, str]]] = []

    def take(self, frame: DataFrame, number: int) -> None:
        """For foreachBatch."""
        while len(self.rows) <= number:
            self.rows.append([])
        found = frame.select("partition", "seq", "payload").collect()
        self.rows[number] = [(row["partition"], row["seq"], row["payload"]) for row in found]

    @property
    def all(self) -> list[tuple[str, int, str]]:
        return [row for batch in self.rows for row in batch]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.rows if batch]

    def lanes(self) -> dict[str, list[int]]:
        """The seqs of each partition in the order of delivery: by batch, and by seq within one."""
        found: dict[str, list[int]] = {}
        for batch in self.rows:
            for partition, seq, _ in sorted(batch, key=lambda row: row[1]):
                found.setdefault(partition, []).append(seq)
        return found


def start(frame: DataFrame, batches: Batches, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Deliver a stream into `batches`."""
    writer = frame.writeStream.foreachBatch(batches.take).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger).start()


def run(frame: DataFrame, checkpoint: Path, batches: Batches | None = None) -> Batches:
    """Deliver what there is now."""
    found = Batches() if batches is None else batches
    query = start(frame, found, checkpoint, availableNow=True)
    assert query.awaitTermination(LIMIT)
    return found


def stored_offsets(checkpoint: Path) -> list[dict[str, Any]]:
    """The end of each batch as Spark keeps it."""
    files = sorted((int(path.name), path) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    return [json.loads(path.read_text().splitlines()[2]) for _, path in files]
