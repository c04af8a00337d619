"""archive: every message, delivery, dead letter and workflow event into the lake, exactly once.

Messages come by a streaming query of the connector. Its batches are written by the executors and committed to the
log of the lake together with the position they reach, which is where the next run begins: the log is the checkpoint.
Only afterwards does the database learn the position, below which retention may remove.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake.files import File, Reach
from queen.spark.lake.lake import Moved
from queen.spark.lake.places import Place
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES
from queen.spark.lake.writing import Filer, told_of, write_batches
from queen.spark.offsets import Position
from queen.spark.options import source_options
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.options import choice, whole
from queen.spark.planning import Planner
from queen.spark.tables import Span, ask_for, spans

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_PER_TASK: Final = 250_000
BYTES_PER_ROW: Final = 100
"""Of a message in a file, until there are some to tell by."""
MEGABYTE: Final = 1 << 20
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TICK: Final = timedelta(microseconds=1)
TRIES: Final = 10
STATEMENTS: Final = {"deliveries": "table_deliveries", "dead_letters": "table_dead_letters"}


@pipeline(
    "archive",
    summary="Every message, delivery, dead letter and workflow event into the lake, exactly once",
    options={"rows": "1000000", "file_megabytes": "128", "on_loss": "fail", "read_url": ""},
    continuous=True,
)
def archive(context: Context) -> Outcome:
    """Bring the lake up to now."""
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
        self._rows = whole(context.options, "rows")
        self._target = whole(context.options, "file_megabytes") * MEGABYTE
        self._lenient = choice(context.options, "on_loss", ("fail", "skip")) == "skip"
        self._planner = Planner(source_options({"url": context.url, "archive": "strict"}), database)

    def run(self) -> Outcome:
        """Archive what is there now: first what happened to messages, then the messages, so that none is missing."""
        identity, place = self._lake.identity, self._lake.place
        self._database.rows("lake/forget_place", lake=identity.id, place=place.shown)
        settled = self._database.row("lake/settled")
        counts = {}
        for table in LAKE_TABLES:
            if table != MESSAGES and (table != "workflow_history" or settled["durable"]):
                counts[table] = self._archive_times(table, settled["until"])
        counts[MESSAGES] = self._archive_messages()
        state = self._lake.state()
        size = {"kept": sum(file.rows for file in state.files), "bytes": sum(file.bytes for file in state.files)}
        commit = state.versions.get(MESSAGES, 0)
        figures = {**counts, "lake": str(identity.id), "files": len(state.files), **size, "commit": commit}
        return Outcome(sum(counts.values()), figures)

    def _archive_messages(self) -> int:
        """Stream what is committed now; begin anew where the lake is when somebody else has written to it meanwhile."""
        here = self._planner.here()
        rows = 0
        for left in reversed(range(TRIES)):
            reach = self._lake.reach(MESSAGES)
            start = self._start(reach, here)
            if reach is not None:
                self._note(MESSAGES, reach)
            stream = MessageStream(self._context, self._note, reach, start, here.pos)
            try:
                if start.pos < here.pos:
                    stream.run(self._rows, self._rows_per_task(), self._target, lenient=self._lenient)
                return rows + stream.rows
            except Moved:
                rows += stream.rows
                if not left:
                    raise
        return rows

    def _start(self, reach: Reach | None, here: Position) -> Position:
        """Where the lake ends; for a new one the first message there is."""
        identity = self._lake.identity
        if reach is not None and reach.pos is not None:
            if reach.pos > here.pos:
                raise SparkError(
                    "FOREIGN_LAKE",
                    f"the lake at {self._lake.place.address} holds messages up to position {reach.pos}, but the "
                    f"database has only come to {here.pos}: it was restored from an older state; begin a new lake",
                )
            return Position(reach.pos, identity.database, identity.removed)
        first = self._database.row("lake/first_message")["pos"]
        return Position(here.pos if first is None else min(first, here.pos), identity.database, identity.removed)

    def _rows_per_task(self) -> int:
        """As many rows as make a file of the size wanted, going by those of the latest commits."""
        head = self._lake.head(MESSAGES)
        rows, size = (head.rows, head.bytes) if head is not None else (0, 0)
        if not rows:
            # The commits of delta-rs do not tell.
            files = self._lake.state().of(MESSAGES)
            rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return max(self._target * rows // size if rows and size else self._target // BYTES_PER_ROW, 1)

    def _archive_times(self, table: str, until: datetime) -> int:
        """Archive a table that is read by time."""
        reach, rows = self._lake.reach(table), 0
        since = EPOCH + reach.until * TICK if reach is not None and reach.until is not None else None
        while since is None or since < until:
            ask = {"since": since.isoformat() if since else None, "until": until.isoformat(), "rows": self._rows}
            found = self._database.row(f"lake/reach_{table}", **{k: v for k, v in ask.items() if v is not None})
            to = Reach(until=(found["until"] - EPOCH) // TICK)
            if found["n"]:
                tasks = -(-found["n"] // ROWS_PER_TASK)
                parts = list(spans(found["since"], found["until"], tasks, None))
                files = self._write_spans(table, parts)
                self._lake.append(table, files, reach, to)
                rows, reach = rows + sum(file.rows for file in files), to
            self._note(table, to)
            since = found["until"]
            self._context.progress.step(table, rows, None)
        return rows

    def _write_spans(self, table: str, parts: Sequence[Span]) -> list[File]:
        share = partial(write_spans, self._lake.place.below(table), table, self._context.url, self._target, parts)
        frame = self._context.spark.range(0, len(parts), 1, len(parts)).mapInArrow(share, "file string")
        return told(frame)

    def _note(self, table: str, reach: Reach) -> None:
        until = (EPOCH + reach.until * TICK).isoformat() if reach.until is not None else None
        place = {"lake": self._lake.identity.id, "place": self._lake.place.shown, "source": table}
        self._database.rows("lake/note_position", **place, pos=reach.pos, until=until)


@dataclass
class MessageStream:
    """Messages on their way into the lake: a streaming query whose checkpoint is the lake itself."""

    context: Context
    note: Any
    reach: Reach | None
    start: Position
    end: int
    rows: int = 0
    failure: Exception | None = None

    def run(self, rows: int, per_task: int, target: int, *, lenient: bool) -> None:
        """Everything that is committed now, batch by batch."""
        reader = self.context.spark.readStream.format("queen").option("url", self.context.url)
        reader = reader.option("archive", "lenient" if lenient else "strict")
        reader = reader.option("startingOffsets", json.dumps(self.start.to_offset()))
        if replica := self.context.options["read_url"]:
            reader = reader.option("readUrl", replica)
        frame = reader.option("maxOffsetsPerTrigger", rows).option("maxRowsPerTask", per_task).load()
        with tempfile.TemporaryDirectory(prefix="queen-archive-") as checkpoint:
            writer = frame.writeStream.foreachBatch(partial(self._batch, target))
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            except Exception:
                if self.failure is not None:
                    raise self.failure from None
                raise
            finally:
                query.stop()

    def _batch(self, target: int, frame: DataFrame, _: int) -> None:
        try:
            self._store(target, frame)
        except Exception as error:
            # Spark would make a text of it.
            self.failure = error
            raise

    def _store(self, target: int, frame: DataFrame) -> None:
        lake = self.context.lake
        share = partial(write_batches, lake.place.below(MESSAGES), MESSAGES, target)
        files = told(frame.mapInArrow(share, "file string"))
        if not files:
            return
        reach = Reach(pos=max(file.high for file in files) + 1)
        lake.append(MESSAGES, files, self.reach, reach)
        self.reach = reach
        self.rows += sum(file.rows for file in files)
        self.note(MESSAGES, reach)
        self.context.progress.step(MESSAGES, (reach.pos or 0) - self.start.pos, self.end - self.start.pos)


def told(frame: DataFrame) -> list[File]:
    """The files that tasks have written."""
    return [msgspec.json.decode(row.file, type=File) for row in frame.collect()]


def write_spans(
    place: Place, table: str, url: str, target: int, parts: Sequence[Span], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: read its spans from PostgreSQL as they are stored, and write them."""
    database = Database(url)
    filer = Filer(place, table, target)
    name = STATEMENTS.get(table, f"lake/rows_{table}")
    files: list[File] = []
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files += filer.take(database.table(name, **ask_for(parts[number])))
        yield told_of([*files, *filer.end()])
    finally:
        database.close()
