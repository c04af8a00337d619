"""replay: messages of the lake back into a queue, in their order, each once however often it is run.

The messages are taken in ranges of `pos`, which never change once they are in the lake. Each range is one
write under a name of its own, so a range that is stored is not stored again, and a run that was stopped goes
on with the range it had come to. Transaction ids are kept: what is still in the queue is not doubled either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake.files import File
from queen.spark.lake.opening import unsealed
from queen.spark.lake.tables import MESSAGES
from queen.spark.pipelines.definition import Context, Outcome, Period, load_module, pipeline
from queen.spark.pipelines.options import choice, whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SENT = ("queue", "partition", "payload", "transaction_id", "trace_id", "parent_id")
MOST = 100_000


@pipeline(
    "replay",
    summary="Messages of the lake back into a queue: by queue, time and condition, each once",
    reads=(MESSAGES,),
    options={
        "queue": "", "to": "", "group": "", "where": "", "map": "", "rate": "0", "rows": "50000", "dry_run": "false",
    },
    foreign=True,
)  # fmt: skip
def replay(context: Context) -> Outcome:
    """Send the chosen messages, or count them."""
    database = Database(context.url)
    try:
        return Replay(context, database).run()
    finally:
        database.close()


def select(messages: DataFrame, queue: str, period: Period) -> DataFrame:
    """The messages of a queue and period."""
    chosen: Column = f.col("queue") == queue
    if period.start is not None:
        chosen &= f.col("created_at") >= f.lit(period.start)
    if period.end is not None:
        chosen &= f.col("created_at") < f.lit(period.end)
    return messages.where(chosen)


def count_by_partition(messages: DataFrame) -> DataFrame:
    """What a replay would send: messages and times by partition."""
    return messages.groupBy("partition").agg(
        f.count("*").alias("messages"),
        f.min("seq").alias("first_seq"),
        f.max("seq").alias("last_seq"),
        f.min("created_at").alias("since"),
        f.max("created_at").alias("until"),
    )


def in_order(messages: DataFrame, target: str) -> DataFrame:
    """The messages as they are sent: each partition whole and in order within one task."""
    placed = messages.withColumn("queue", f.lit(target)).repartition("partition").sortWithinPartitions("pos")
    return placed.select(*[name for name in SENT if name in placed.columns])


@dataclass(frozen=True)
class Range:
    """Positions that are sent by one write."""

    low: int
    high: int
    files: list[File]


class Replay:
    """One run of a replay."""

    def __init__(self, context: Context, database: Database) -> None:
        options = context.options
        self._context = context
        self._database = database
        self._queue = options["queue"]
        if not self._queue:
            raise SparkError("INVALID_OPTION", "say what to replay: --option queue=NAME")
        self._target = options["to"] or side_queue(self._queue, options["group"])
        self._rate = whole(options, "rate", least=0)
        self._width = min(whole(options, "rows"), MOST, max(self._rate, 1) if self._rate else MOST)
        self._dry = choice(options, "dry_run", ("true", "false")) == "true"
        self._mapping = mapping(options["map"])
        self._id = identify(context.lake.identity.id, self._target, context.period, options)

    def run(self) -> Outcome:
        """Send range after range, as fast as allowed."""
        files = self._files()
        if self._dry:
            return self._count(files)
        total = sum(file.rows for file in files)
        before = self._stored()
        read = 0
        reach = self._context.lake.reach(MESSAGES)
        pace = Pace(self._rate)
        for part in ranges(files, self._width, reach.pos or 0 if reach else 0):
            if self._name(part) not in before:
                sent = self._send(part)
                pace.wait(sent)
            read += sum(file.rows for file in part.files if part.low <= file.high < part.high)
            self._context.progress.step("replay", min(read, total), total)
        stored = self._stored()
        self._subscribe()
        rows = sum(row["stored"] for row in stored.values())
        doubled = sum(row["duplicates"] for row in stored.values())
        new = rows - sum(row["stored"] for row in before.values())
        return Outcome(new, {"queue": self._target, "stored": rows, "duplicates": doubled, "replay": self._id})

    def _files(self) -> list[File]:
        period = self._context.period
        first = period.start.date().isoformat() if period.start else ""
        last = period.end.date().isoformat() if period.end else "9999"
        files = self._context.lake.state().of(MESSAGES)
        found = [file for file in files if file.group == self._queue]
        if not found:
            known = sorted({file.group for file in files if file.group})
            near = get_close_matches(self._queue, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SparkError("QUEUE_NOT_FOUND", f"the lake has no messages of queue {self._queue!r}{hint}")
        return [file for file in found if first <= file.date <= last]

    def _chosen(self, files: list[File]) -> DataFrame:
        context = self._context
        found = select(context.lake.read(context.spark, MESSAGES, files), self._queue, context.period)
        if any(file.sealed for file in files):
            found = unsealed(found)
        return found.where(context.options["where"]) if context.options["where"] else found

    def _count(self, files: list[File]) -> Outcome:
        counted = count_by_partition(self._chosen(files)).collect()
        rows: list[Mapping[str, Any]] = [row.asDict() for row in counted]
        self._context.write("replay", rows, key="partition")
        messages = sum(row["messages"] for row in rows)
        return Outcome(0, {"queue": self._target, "messages": messages, "partitions": len(rows), "dry_run": True})

    def _send(self, part: Range) -> int:
        chosen = self._chosen(part.files).where((f.col("pos") >= part.low) & (f.col("pos") < part.high))
        sent = in_order(self._mapping(chosen), self._target)
        writer = sent.write.format("queen").option("url", self._context.url).option("writeId", self._name(part))
        writer.mode("append").save()
        return sum(row["stored"] for row in self._stored(self._name(part)).values())

    def _name(self, part: Range) -> str:
        return f"replay/{self._id}/{part.low}-{part.high}"

    def _stored(self, prefix: str = "") -> dict[str, Any]:
        rows = self._database.rows("pipelines/stored_batches", prefix=prefix or f"replay/{self._id}/")
        return {row["name"]: row for row in rows}

    def _subscribe(self) -> None:
        """Let the side queue of a group wait for that group from its first message."""
        group = self._context.options["group"]
        for row in self._database.rows("queues", names=[self._target]) if group else []:
            more = self._database.row("subscribe", queue=row["id"], group=group)["more"]
            while more:
                more = self._database.row("fill_subscription", queue=row["id"], group=group)["more"]


class Pace:
    """Keeps to so many rows per second on average; 0: as fast as it goes."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._began = monotonic()
        self._sent = 0
        self._clock = Event()

    def wait(self, sent: int) -> None:
        """Wait until it is time for more."""
        self._sent += sent
        if self._rate:
            self._clock.wait(max(self._sent / self._rate - (monotonic() - self._began), 0))


def side_queue(queue: str, group: str) -> str:
    """Where messages go: the queue itself, or beside it for one group only."""
    return f"{queue}.replay.{group}" if group else queue


def ranges(files: list[File], width: int, end: int) -> Iterator[Range]:
    """The positions of some files in ranges that begin at multiples of their width, up to where the lake ends.

    The last one is cut off there, so that it is another range when the lake has more.
    """
    if not files:
        return
    for low in range(min(file.low for file in files) // width * width, max(file.high for file in files) + 1, width):
        within = [file for file in files if file.low < low + width and file.high >= low]
        if within:
            yield Range(low, min(low + width, end), within)


def mapping(name: str) -> Any:
    """The function that changes the messages before they are sent: a frame in, a frame out."""
    if not name:
        return lambda messages: messages
    module, _, wanted = name.partition(":")
    found = getattr(load_module(module), wanted, None)
    if not callable(found):
        raise SparkError(
            "INVALID_OPTION", f"option 'map' must name a function as package.module:function, not {name!r}"
        )
    return found


def identify(lake: str, target: str, period: Period, options: Mapping[str, str]) -> str:
    """The same for the same replay, whenever it is run."""
    kept = {name: options[name] for name in ("queue", "where", "map", "rows", "rate")}
    said = [lake, target, str(period.start), str(period.end), kept]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
