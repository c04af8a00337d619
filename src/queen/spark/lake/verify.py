"""Is the lake what it says, and does it agree with PostgreSQL? By files, then by partition, then by message.

All of it is the work of the executors: each reads files of its own and asks PostgreSQL for partitions of its own.
The driver learns of what differs, and of no more than people look at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.database import Database
from queen.spark.errors import SparkError, plainly
from queen.spark.lake.files import File, State
from queen.spark.lake.lake import Lake
from queen.spark.lake.reading import PER_TASK
from queen.spark.lake.tables import MESSAGES

ROWS_AT_ONCE: Final = 200_000
PARTITIONS_AT_ONCE: Final = 10_000
SHOWN: Final = 20
LANES_SHOWN: Final = 1000
DAMAGED_SHOWN: Final = 1000
KEPT: Final = "partition_id long, queue string, partition string, first_seq long, n long, checksum string"
STORED: Final = "partition_id long, seq long, id string, hash long"


@dataclass(frozen=True)
class Lane:
    """One partition in the lake and in the database."""

    queue: str
    partition: str
    partition_id: int
    lake: int
    database: int
    twice: int
    missing: int
    """Between its first and last seq: deleted by hand, or removed before it was archived."""
    agrees: bool
    only_in_lake: tuple[str, ...] = ()
    only_in_database: tuple[str, ...] = ()
    different: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What was found; of the partitions those that differ first, and no more than people look at."""

    files: int
    rows: int
    damaged: tuple[str, ...] = ()
    partitions: int = 0
    differing: int = 0
    lanes: tuple[Lane, ...] = field(default=())

    @property
    def agrees(self) -> bool:
        """Whether all is well."""
        return not self.damaged and not self.differing


def verify(lake: Lake, url: str | None, spark: SparkSession | None = None) -> Verdict:
    """Check every file against the log, and the messages against PostgreSQL if an address is given.

    By the session given, or the one that runs in this process.
    """
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise SparkError("SPARK_FAILED", "there is no Spark session: make one by queen.spark.session()")
    state = lake.state()
    rows = sum(file.rows for file in state.files)
    damaged = tuple(found_damaged(spark, lake, state.files))
    if damaged or url is None:
        return Verdict(len(state.files), rows, damaged)
    database = Database(url)
    try:
        lake.require_database(database.row("identity")["database"])
        shares = list(in_shares(sizes(database)))
    finally:
        database.close()
    comparison = Comparison(spark, lake, state, url, shares)
    partitions, differing, lanes = comparison.lanes()
    return Verdict(len(state.files), rows, (), partitions, differing, tuple(lanes))


def found_damaged(spark: SparkSession, lake: Lake, files: Sequence[File]) -> list[str]:
    """What is wrong with files, in a sentence each."""
    shares = list(by_size(files))
    if not shares:
        return []
    share = partial(look_at, lake, shares)
    found = spark.range(0, len(shares), 1, len(shares)).mapInArrow(share, "path string, wrong string")
    return [f"{row.path} {row.wrong}" for row in found.limit(DAMAGED_SHOWN).collect()]


def by_size(files: Sequence[File]) -> Iterator[list[File]]:
    """Files in shares of about the same size."""
    held: list[File] = []
    size = 0
    for file in files:
        held.append(file)
        size += file.bytes
        if size >= PER_TASK:
            yield held
            held, size = [], 0
    if held:
        yield held


def look_at(
    lake: Lake, shares: Sequence[Sequence[File]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: its files, and what is wrong with them."""
    with plainly():
        for batch in batches:
            files = [file for number in batch.column(0).to_pylist() for file in shares[number]]
            found = [(file.path, wrong) for file in files if (wrong := damage(lake, file))]
            texts = [pa.array([pair[side] for pair in found], pa.string()) for side in (0, 1)]
            yield pa.RecordBatch.from_arrays(texts, names=["path", "wrong"])


def damage(lake: Lake, file: File) -> str | None:
    """What is wrong with a file, if anything."""
    place = lake.place.below(file.table)
    (size,) = place.sizes([file.path])
    if size < 0:
        return "is missing"
    if size != file.bytes:
        return "is not what was written"
    with place.get(file.path) as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    if not file.fits(digest):
        return "is not what was written"
    with place.get(file.path) as source:
        rows = pq.read_metadata(source).num_rows
    return None if rows == file.rows else f"has {rows} rows instead of {file.rows}"


def sizes(database: Database) -> Iterator[dict[str, Any]]:
    """Every partition of the database, with about how many messages it has."""
    after = 0
    while rows := database.rows("lake/lane_sizes", after=after):
        yield from rows
        after = rows[-1]["id"]


def in_shares(lanes: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Partitions in shares of about as many messages."""
    held: list[dict[str, Any]] = []
    size = 0
    for lane in lanes:
        held.append(lane)
        size += lane["n"]
        if size >= ROWS_AT_ONCE or len(held) >= PARTITIONS_AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


class Comparison:
    """The messages of a lake beside those of its database."""

    def __init__(
        self, spark: SparkSession, lake: Lake, state: State, url: str, shares: Sequence[Sequence[dict[str, Any]]]
    ) -> None:
        self._spark = spark
        self._url = url
        reach = state.reaches.get(MESSAGES)
        self._high = reach.pos or 0 if reach is not None else 0
        self._messages = lake.read(spark, MESSAGES, state.of(MESSAGES))
        self._shares = shares

    def lanes(self) -> tuple[int, int, list[Lane]]:
        """How many partitions there are on either side, how many differ, and those to look at."""
        share = partial(ask_checksums, self._url, self._high, self._shares)
        count = len(self._shares)
        asked = self._spark.range(0, count, 1, max(count, 1)).mapInArrow(share, KEPT)
        kept = asked.persist()
        try:
            compared = beside(self._archived(kept), kept).persist()
            try:
                return self._told(compared)
            finally:
                compared.unpersist()
        finally:
            kept.unpersist()

    def _told(self, compared: DataFrame) -> tuple[int, int, list[Lane]]:
        (counts,) = compared.agg(
            F.count("*").alias("partitions"),
            F.count_if(~F.col("same")).alias("unlike"),
            F.count_if(F.col("same") & (F.col("twice") > 0)).alias("twice"),
        ).collect()
        unlike = compared.where("not same").orderBy("partition_id").limit(LANES_SHOWN).collect()
        details = self._details({row.partition_id: row.first_seq for row in unlike})
        found = [lane_of(row, details.get(row.partition_id, {})) for row in unlike]
        wrong = sum(not lane.agrees or lane.twice > 0 for lane in found) + counts.unlike - len(unlike) + counts.twice
        like = compared.where("same").orderBy(F.desc("twice"), "partition_id").limit(LANES_SHOWN - len(found))
        found += [lane_of(row, {}) for row in like.collect()]
        found.sort(key=lambda lane: (lane.agrees and not lane.twice, lane.partition_id))
        return counts.partitions, wrong, found

    def _archived(self, kept: DataFrame) -> DataFrame:
        """Count, checksum and gaps of each partition in the lake."""
        single = self._messages.groupBy("partition_id", "seq").agg(
            F.first("queue").alias("queue"),
            F.first("partition").alias("partition"),
            F.count("*").alias("times"),
            F.sum(hashed().cast("decimal(20,0)")).alias("hash"),
        )
        first = kept.select("partition_id", "first_seq")
        here = F.col("seq") >= F.col("first_seq")
        return (
            single.join(first, "partition_id", "left")
            .groupBy("partition_id")
            .agg(
                F.first("queue").alias("lake_queue"),
                F.first("partition").alias("lake_partition"),
                F.sum("times").alias("lake"),
                F.sum(F.when(here, F.col("times")).otherwise(0)).alias("kept"),
                F.coalesce(F.sum(F.when(here, F.col("hash"))), F.lit(0)).cast("decimal(38,0)").alias("sum"),
                F.sum(F.col("times") - 1).alias("twice"),
                (F.max("seq") - F.min("seq") + 1 - F.count("*")).alias("missing"),
            )
        )

    def _details(self, lanes: Mapping[int, int]) -> dict[int, dict[str, tuple[str, ...]]]:
        """Which messages differ in some partitions, from a seq on; one deleted by hand may well be in the lake."""
        if not lanes:
            return {}
        numbers = list(lanes)
        share = partial(ask_messages, self._url, self._high, numbers)
        there = self._spark.range(0, len(numbers), 1, len(numbers)).mapInArrow(share, STORED)
        first = self._spark.createDataFrame(list(lanes.items()), "partition_id long, first_seq long")
        mine = self._messages.join(F.broadcast(first), "partition_id").where("seq >= first_seq")
        here = mine.select("partition_id", "seq", F.col("id").alias("here"), hashed().alias("mine"))
        both = here.join(there.withColumn("there", F.lit(True)), ["partition_id", "seq"], "full")
        kind = (
            F.when(F.col("there").isNull(), "only_in_lake")
            .when(F.col("here").isNull() & F.col("id").isNotNull(), "only_in_database")
            .when(F.col("id").isNotNull() & (F.col("mine") != F.col("hash")), "different")
        )
        place = F.row_number().over(Window.partitionBy("partition_id", "kind").orderBy("seq"))
        found = both.withColumn("kind", kind).where("kind is not null").withColumn("place", place)
        details: dict[int, dict[str, tuple[str, ...]]] = {}
        for row in found.where(F.col("place") <= SHOWN).orderBy("partition_id", "seq").collect():
            kinds = details.setdefault(row.partition_id, {})
            kinds[row.kind] = (*kinds.get(row.kind, ()), f"{row.seq}:{row.here or row.id}")
        return details


def lane_of(row: Row, details: Mapping[str, Any]) -> Lane:
    """A partition as it is told of; what differs only in what was deleted by hand does not differ."""
    agrees = row.same or not details
    counts = (row.lake, row.database, row.twice, row.missing)
    return Lane(row.queue, row.partition, row.partition_id, *counts, agrees, **details)


def beside(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    """Every partition of either side, and whether both hold the same."""
    nothing = F.lit(0).cast("long")
    n = F.coalesce("n", nothing)
    there = F.coalesce(F.col("checksum").cast("decimal(38,0)"), nothing.cast("decimal(38,0)"))
    same = (F.coalesce("kept", nothing) == n) & ((n == 0) | (F.col("sum") == there))
    both = ours.join(theirs, "partition_id", "full").where((F.coalesce("lake", nothing) > 0) | (n > 0))
    return both.select(
        "partition_id",
        F.coalesce("lake_queue", "queue").alias("queue"),
        F.coalesce("lake_partition", "partition").alias("partition"),
        F.coalesce("first_seq", F.lit(1).cast("long")).alias("first_seq"),
        *[F.coalesce(name, nothing).alias(name) for name in ("lake", "twice", "missing")],
        n.alias("database"),
        same.alias("same"),
    )


def hashed() -> Column:
    """The first 60 bits of a hash of a message, as `lake/checksums` has it."""
    text = F.concat_ws(":", "id", "seq", "transaction_id", F.unix_micros("created_at"), "payload")
    return F.conv(F.substring(F.md5(text), 1, 15), 16, 10).cast("long")


def ask_checksums(
    url: str, high: int, shares: Sequence[Sequence[dict[str, Any]]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: what PostgreSQL holds of its partitions."""
    with plainly():
        database = Database(url)
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    lanes = {lane["id"]: lane for lane in shares[number]}
                    rows = database.rows("lake/checksums", partitions=list(lanes), to=high)
                    names = (
                        {name: lanes[row["partition_id"]][name] for name in ("queue", "partition")} for row in rows
                    )
                    yield as_batch(KEPT, [{**row, **named} for row, named in zip(rows, names, strict=True)])
        finally:
            database.close()


def ask_messages(
    url: str, high: int, lanes: Sequence[int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: every message PostgreSQL holds of its partitions."""
    with plainly():
        database = Database(url)
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    rows = database.rows("lake/lane_rows", partition=lanes[number], to=high)
                    yield as_batch(STORED, [{"partition_id": lanes[number], **row} for row in rows])
        finally:
            database.close()


def as_batch(described: str, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows with the columns of a description, in their order."""
    kinds = {"long": pa.int64(), "string": pa.string()}
    columns = [column.split() for column in described.split(", ")]
    arrays = [pa.array([row[name] for row in rows], kinds[kind]) for name, kind in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])
