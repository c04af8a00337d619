"""archive: every message, delivery, dead letter and workflow event into the lake, exactly once.

The manifest of the lake is the checkpoint: a commit names the files of a batch and up to where the table is
then complete, so a batch counts as a whole or not at all, and a run goes on where the last commit ended.
Only afterwards does the database learn the position, below which retention may remove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake.delta import require_delta, write_delta
from queen.spark.lake.manifest import Commit, File, Reach
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES
from queen.spark.lake.writing import Share, write_share
from queen.spark.offsets import Position
from queen.spark.options import source_options
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.options import choice, whole
from queen.spark.planning import Planner, Slice, cut
from queen.spark.tables import spans

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS_PER_TASK = 100_000


@pipeline(
    "archive",
    summary="Every message, delivery, dead letter and workflow event into the lake, exactly once",
    options={"rows": "250000", "on_loss": "fail", "delta": "false"},
    continuous=True,
)
def archive(context: Context) -> Outcome:
    """Bring the lake up to now."""
    with context.lake.writing():
        database = Database(context.url)
        try:
            return Archiver(context, database).run()
        finally:
            database.close()


class Archiver:
    """One run of the archive."""

    def __init__(self, context: Context, database: Database) -> None:
        self._context = context
        self._database = database
        self._lake = context.lake
        self._state = context.lake.state()
        self._rows = whole(context.options, "rows")
        self._lenient = choice(context.options, "on_loss", ("fail", "skip")) == "skip"
        self._delta = choice(context.options, "delta", ("true", "false")) == "true"
        if self._delta:
            require_delta()
        self._planner = Planner(source_options({"url": context.url}), database)

    def run(self) -> Outcome:
        """Archive what is there now: first what happened to messages, then the messages, so that none is missing."""
        self._database.rows("lake/forget_place", lake=self._lake.identity.id, place=self._lake.place)
        for table, reach in self._state.reaches.items():
            self._note(table, reach)
        swept = self._lake.sweep(self._state) if self._lake.untidy else 0
        settled = self._database.row("lake/settled")
        counts = {}
        for table in LAKE_TABLES:
            if table != MESSAGES and (table != "workflow_history" or settled["durable"]):
                counts[table] = self._archive_times(table, settled["until"])
        counts[MESSAGES] = self._archive_messages()
        if self._delta:
            write_delta(self._lake, self._state)
        figures = {**counts, "files": len(self._state.files), "commit": self._state.version, "swept": swept}
        return Outcome(sum(counts.values()), figures)

    def _archive_messages(self) -> int:
        here = self._planner.here()
        start = self._start(here)
        low, rows = start.pos, 0
        while low < here.pos:
            high = min(low + self._rows, here.pos)
            reach = Reach(pos=high, removed=start.removed)
            rows += self._batch(MESSAGES, self._slices(replace(start, pos=low), high), Reach(pos=low), reach)
            low = high
            self._context.progress.step(MESSAGES, low - start.pos, here.pos - start.pos)
        return rows

    def _start(self, here: Position) -> Position:
        """Where the lake ends; for a new one the first message there is."""
        reach = self._state.reaches.get(MESSAGES)
        if reach is not None and reach.pos is not None:
            if reach.pos > here.pos:
                raise SparkError(
                    "FOREIGN_LAKE",
                    f"the lake at {self._lake.path} holds messages up to position {reach.pos}, but the database has "
                    f"only come to {here.pos}: it was restored from an older state; begin a new lake",
                )
            return Position(reach.pos, self._lake.identity.database, reach.removed or 0)
        first = self._database.row("lake/first_message")["pos"]
        return replace(here, pos=here.pos if first is None else min(first, here.pos))

    def _slices(self, start: Position, high: int) -> list[Slice]:
        queues = [row["id"] for row in self._database.rows("queues")]
        parts = cut(start.pos, high, ROWS_PER_TASK, self._parallel)
        return [Slice(queues, replace(start, pos=first), last) for first, last in parts]

    def _archive_times(self, table: str, until: datetime) -> int:
        """Archive a table that is read by time."""
        reach, rows = self._state.reaches.get(table), 0
        since = datetime.fromisoformat(reach.until) if reach is not None and reach.until else None
        while since is None or since < until:
            ask = {"since": since.isoformat() if since else None, "until": until.isoformat(), "rows": self._rows}
            found = self._database.row(f"lake/reach_{table}", **{k: v for k, v in ask.items() if v is not None})
            parts = list(spans(found["since"], found["until"], self._parallel, None)) if found["n"] else []
            to = Reach(until=found["until"].isoformat())
            if parts or reach is None:
                rows += self._batch(table, parts, reach, to)
            since, reach = found["until"], to
            self._context.progress.step(table, rows, None)
        return rows

    def _batch(self, table: str, parts: Sequence[Any], since: Reach | None, reach: Reach) -> int:
        """Write one batch and let it count."""
        with self._lake.staging() as staged:
            shares = [Share(self._context.url, table, str(staged), part, self._lenient) for part in parts]
            files = write_all(self._context.spark, shares)
            rows = sum(file.rows for file in files)
            commit = Commit(
                version=0, kind="append", table=table, run=self._context.run_id, since=since, reach=reach, added=files,
                rows=rows,
            )  # fmt: skip
            self._state = self._lake.commit(self._state, commit, staged)
        self._note(table, reach)
        return rows

    def _note(self, table: str, reach: Reach) -> None:
        said = {"pos": reach.pos, "until": reach.until}
        place = {"lake": self._lake.identity.id, "place": self._lake.place, "source": table}
        self._database.rows("lake/note_position", **place, **said)

    @cached_property
    def _parallel(self) -> int:
        return max(self._context.spark.sparkContext.defaultParallelism, 1)


def write_all(spark: SparkSession, shares: Sequence[Share]) -> list[File]:
    """Let the executors write, each task one share; what the winning attempts wrote."""
    if not shares:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 - runs on an executor

        for batch in batches:
            for number in batch.column(0).to_pylist():
                told = [msgspec.json.encode(file).decode() for file in write_share(shares[number])]
                yield pa.RecordBatch.from_arrays([pa.array(told, pa.string())], names=["file"])

    frame = spark.range(0, len(shares), 1, len(shares)).mapInArrow(work, "file string")
    return [msgspec.json.decode(row.file, type=File) for row in frame.collect()]
