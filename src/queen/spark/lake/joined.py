"""The live queue and the lake as one table: a version of the log and a moment of the database that fit exactly.

    with all_messages(spark, Lake.open("lake"), url) as messages:
        messages.groupBy("queue").count().show()

What is below the position the lake has reached comes from there, everything else from the database. Should an archive
and retention have run between the two choices, so that a message is neither above the one nor in the other, the
lake has moved on: then it is chosen again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable

from queen.spark.columns import ARCHIVED
from queen.spark.database import Database, Snapshot
from queen.spark.errors import SparkError
from queen.spark.lake.files import listed
from queen.spark.lake.lake import Lake, reached
from queen.spark.lake.tables import MESSAGES, delta_schema
from queen.spark.lake.writing import shaped
from queen.spark.offsets import Position
from queen.spark.options import SourceOptions, source_options
from queen.spark.planning import Planner, Slice
from queen.spark.reading import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW: Final = "all_messages"
TRIES: Final = 100


@dataclass(frozen=True)
class Cut:
    """Where the lake ends and the database goes on, as of one moment."""

    lake: Lake
    log: DeltaTable | None
    start: Position
    end: int
    url: str
    snapshot: str

    @property
    def options(self) -> dict[str, str]:
        """How the connector reads what is not in the lake."""
        last = Position(self.end, self.start.database, self.start.removed)
        return {
            "url": self.url, "archive": "lenient", "snapshot": self.snapshot,
            "startingOffsets": json.dumps(self.start.to_offset()), "endingOffsets": json.dumps(last.to_offset()),
        }  # fmt: skip

    def live(self) -> pa.Table:
        """The messages that are not in the lake, as the lake has them."""
        options: SourceOptions = source_options(self.options)
        database = Database(self.url, snapshot=self.snapshot)
        try:
            queues = Planner(options, database).queues()
        finally:
            database.close()
        part = Slice(queues, self.start, self.end)
        pages = pa.Table.from_batches(read(options, ARCHIVED, part) if self.end > self.start.pos else [], rows_schema())
        return shaped(pages, delta_schema(MESSAGES), "created_at")


def rows_schema() -> pa.Schema:
    """The columns of a message without the day it is filed under."""
    return delta_schema(MESSAGES).remove(len(delta_schema(MESSAGES)) - 1)


@contextmanager
def choose(lake: Lake, url: str) -> Iterator[Cut]:
    """A version of the lake and a moment of the database that together hold every message once."""
    database = Database(url)
    try:
        for _ in range(TRIES):
            log = lake.log(MESSAGES)
            low = boundary(log)
            found = database.row("where_we_are")
            here = Position(found["pos"], found["database"], found["removed"])
            lake.require_database(here.database)
            with Snapshot(url) as snapshot:
                if not passed_by(lake, url, snapshot.name, low):
                    start = Position(min(low, here.pos), here.database, here.removed)
                    yield Cut(lake, log, start, here.pos, url, snapshot.name)
                    return
    finally:
        database.close()
    raise SparkError("LAKE_BUSY", f"the lake at {lake.place.address} moved on {TRIES} times while it was read")


def boundary(log: DeltaTable | None) -> int:
    """The first position that is not in the lake."""
    reach = None if log is None else reached(MESSAGES, log)
    return 0 if reach is None or reach.pos is None else reach.pos


def passed_by(lake: Lake, url: str, snapshot: str, low: int) -> bool:
    """Whether something above the boundary is gone at that moment because the lake has moved on meanwhile."""
    database = Database(url, snapshot=snapshot)
    try:
        removed = database.row("lake/removed_since", **{"from": low})["removed"]
    finally:
        database.close()
    return bool(removed) and boundary(lake.log(MESSAGES)) != low


@contextmanager
def all_messages(spark: SparkSession, lake: Lake, url: str, view: str = VIEW) -> Iterator[DataFrame]:
    """Live and archived messages as one frame, and as a view of that name, as of one moment while the block lasts.

    The database keeps what is removed meanwhile until the block ends: a view for a job, not for a day.
    """
    with choose(lake, url) as cut:
        files = [] if cut.log is None else list(listed(MESSAGES, cut.log))
        cold = lake.read(spark, MESSAGES, files)
        hot = spark.read.format("queen").options(**cut.options).load()
        frame = cold.unionByName(hot)
        frame.createOrReplaceTempView(view)
        try:
            yield frame
        finally:
            spark.catalog.dropTempView(view)
