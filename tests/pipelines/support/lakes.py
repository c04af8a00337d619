"""A lake in a test: running pipelines on it, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from queen.spark.lake import Lake
from queen.spark.lake.places import Place
from queen.spark.pipelines.definition import Outcome, Period
from queen.spark.pipelines.running import Job, Runner
from tests.spark.support.queues import Queues


@dataclass(frozen=True)
class Pond:
    """A lake, the database it belongs to, and Spark."""

    spark: SparkSession
    queues: Queues
    path: Path
    address: str | None = None
    """Where the lake is, if not in a directory."""

    def run(self, name: str, *, url: str | None = None, period: Period | None = None, **options: str) -> Outcome:
        """Run a pipeline once."""
        job = Job([name], url or self.queues.url, self.address or self.path, "local[2]", period or Period(), options)
        return Runner(job, self.spark).run()[-1].outcome

    @property
    def place(self) -> Place:
        """Where the lake is, or will be."""
        return Place.of(self.address or self.path)

    @property
    def lake(self) -> Lake:
        """The lake as it is now."""
        return Lake.open(self.address or self.path)

    def contents(self, queue: str) -> dict[str, list[Any]]:
        """Seqs by partition, in order, with whatever is there twice."""
        found: dict[str, list[Any]] = {}
        rows = self.lake.read(self.spark, "messages").where(f"queue = '{queue}'").select("partition", "seq").collect()
        for row in sorted(rows, key=lambda row: (row.partition, row.seq)):
            found.setdefault(row.partition, []).append(row.seq)
        return found
