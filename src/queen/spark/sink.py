"""`df.write` and `df.writeStream` with format `queen`: tasks stage rows by COPY, the driver ingests each batch once."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from queen.spark.database import Database
from queen.spark.errors import SparkError, plainly
from queen.spark.options import SinkOptions
from queen.spark.staging import LIMITED, PART, SIDE_BY_SIDE, STAGE, Stager

SHORT = 0.02
"""Seconds that a transaction of the sink should take."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task that won has left in the stage."""

    sink: str
    task: int
    stage: int
    rows: int


def stage(options: SinkOptions, sink: str, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Put the rows of one task attempt into the sink's stage, under a number nobody else has."""
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    number = secrets.randbits(62)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Staged(sink, task, number, 0)
    database = Database(options.address, limit=options.statement_limit)
    try:
        known = database.rows("queues")
        sealed = [row["name"] for row in known if row["encryption_enabled"]]
        limited = [row["name"] for row in known if row["limited"]]
        stager = Stager(options, number, task, sealed, limited)
        table = database.row("open_stage", sink=sink)["stage"]
        rows = database.copy(table, stager.stage_batches(chain([first], batches)), STAGE)
    finally:
        database.close()
    return Staged(sink, task, number, rows)


def ingest(options: SinkOptions, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Store what the winning tasks staged, exactly once, and empty the stage."""
    staged = sorted((m for m in messages if isinstance(m, Staged) and m.rows), key=lambda m: m.task)
    if not staged:
        return
    rows = sum(message.rows for message in staged)
    ask: dict[str, Any] = {"sink": staged[0].sink, "batch": batch}
    stages = [message.stage for message in staged]
    database = Database(options.address, limit=options.statement_limit)
    try:
        plan = json.loads(database.row("prepare_ingest", **ask, stages=stages, rows=rows)["plan"])
        if plan["rest"]:
            parts = [Part(plan["parts"][place], place) for place in plan["rest"]]
            store_all(options, {**ask, "stages": plan["stages"], "total": len(plan["parts"])}, parts)
            database.rows("finish_ingest", **ask)
    finally:
        database.close()


@dataclass(frozen=True)
class Part:
    """A part of a batch, and its place among them."""

    number: int
    place: int


def store_all(options: SinkOptions, ask: dict[str, Any], parts: Sequence[Part]) -> None:
    """What is for limited queues first; then parts that have no partition in common side by side, others in order."""
    store(options, ask, [part for part in parts if part.number == LIMITED])
    rest = sorted((part for part in parts if part.number != LIMITED), key=lambda part: (residue(part), part.number))
    runs = [list(run) for _, run in groupby(rest, key=residue)]
    if runs:
        with ThreadPoolExecutor(options.parallelism) as pool:
            list(pool.map(lambda run: store(options, ask, run), runs))


def residue(part: Part) -> int:
    """Parts for which this differs have no partition in common."""
    return part.number % SIDE_BY_SIDE


class Pace:
    """How many parts to store in one transaction: as many as keep it short, for who pushes meanwhile waits for it."""

    def __init__(self, rows: int) -> None:
        self._most = max(rows // PART, 1)
        self.parts = 1

    def note(self, seconds: float) -> None:
        """The last transaction took so long."""
        wanted = int(self.parts * SHORT / max(seconds, SHORT / self._most))
        self.parts = max(min(wanted, self.parts * 2, self._most), 1)


def store(options: SinkOptions, ask: dict[str, Any], parts: Sequence[Part]) -> None:
    """Parts of a batch in order, some at a time in a short transaction: whoever pushes meanwhile waits for one only.

    Waits for room in a full queue if that was asked for.
    """
    if not parts:
        return
    database = Database(options.address, limit=options.statement_limit)
    deadline = time.monotonic() + options.full_timeout
    rest, pace = list(parts), Pace(options.rows_per_transaction)
    try:
        while rest:
            taken, began = rest[: pace.parts], time.monotonic()
            try:
                chosen = {"parts": [part.number for part in taken], "places": [part.place for part in taken]}
                database.row("ingest", **ask, **chosen)
            except SparkError as error:
                never = error.figures.get("rows", 0) > error.figures.get("limit", 0)
                if error.code != "QUEUE_FULL" or options.when_full == "fail" or never or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
                continue
            pace.note(time.monotonic() - began)
            del rest[: len(taken)]
    finally:
        database.close()


def sweep(options: SinkOptions, sink: str, *, drop: bool, forget: bool) -> None:
    """Empty the stage: what is stored, and what attempts that failed have left."""
    database = Database(options.address, limit=options.statement_limit)
    try:
        database.rows("close_stage", sink=sink, drop=drop, forget=forget)
    finally:
        database.close()


class StreamWriter(DataSourceStreamArrowWriter):
    """One batch after the other, each claimed under the id of the query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: stage the rows."""
        with plainly():
            return stage(self._options, self._sink(), iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when all tasks are done: store the batch."""
        ingest(self._options, batchId, messages)
        self._sweep(messages)

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Also called after a commit that failed: what is stored stays stored."""
        self._sweep(messages)

    def _sink(self) -> str:
        context = TaskContext.get()
        found = context.getLocalProperty("sql.streaming.queryId") if context else None
        if not found:
            raise SparkError("SPARK_FAILED", "Spark does not tell the id of the query, by which its batches are known")
        return found

    def _sweep(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for sink in {message.sink for message in messages if isinstance(message, Staged)}:
            sweep(self._options, sink, drop=False, forget=False)


class BatchWriter(DataSourceArrowWriter):
    """A whole frame as one batch, claimed under `writeId`: the same id again stores nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._sink = options.write_id or f"job-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: stage the rows."""
        with plainly():
            return stage(self._options, self._sink, iterator)

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done: store the rows."""
        ingest(self._options, 0, messages)
        self._sweep()

    @plainly()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Also called after a commit that failed: what is stored stays stored."""
        self._sweep()

    def _sweep(self) -> None:
        sweep(self._options, self._sink, drop=True, forget=self._options.write_id is None)
