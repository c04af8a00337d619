"""The same comparison with Spark on both databases, for systems too large for one process.

Tasks read a few partitions each, all in the one snapshot of the source that the driver holds; Spark joins the messages
of both sides one by one, so that no second look is needed to name what differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import asyncpg
import pyarrow as pa

from queen.spark.session import session
from queen.sql import query
from queen.transfer.follow import catch_up, snapshot
from queen.transfer.link import Link, exclusive
from queen.transfer.model import Partition, formers, ids
from queen.transfer.report import Difference, Report
from queen.transfer.sync import pairs
from queen.transfer.verify import (
    MOST,
    Named,
    Tally,
    batches,
    bring_changed,
    compare_overview,
    judge,
    keep,
    prepare_target,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 5_000
MESSAGES: Final = "partition long, message string, place long, transaction_id string, payload string"
FACTS: Final = "partition long, kind string, name string, value string"
_TYPES: Final = {"long": pa.int64(), "string": pa.string()}


@dataclass(frozen=True, slots=True)
class Side:
    """Where a task reads, and what."""

    dsn: str
    schema: str
    snapshot: str | None
    statement: str
    columns: str


async def verify_by_spark(link: Link, master: str = "local[*]") -> Report:
    """Compare everything with Spark; the report is kept in the target."""
    state = link.require("copied", "closing")
    started = datetime.now(UTC)
    await prepare_target(link)
    await catch_up(link)
    tally = Tally()
    await compare_overview(link, tally)
    async with exclusive(link), snapshot(link.source) as source:
        name = await source.fetchval(query("transfer/export_snapshot"))
        groups = [batch async for batch in batches(link)]
        entries: list[int] = []
        for batch in groups:
            entries += await bring_changed(link, source, [each.partition for each in batch])
        asked = [await _ask(link, batch) for batch in groups]
        sides = await _sides(link, name)
        compared = await asyncio.to_thread(_compare, master, sides, asked, link.version)
    await link.source.execute(query("transfer/forget_changes"), entries)
    names = {each.partition.id: each for batch in groups for each in batch}
    for kind, count in compared.counts.items():
        tally.count(kind, count)
    tally.differences += _named(compared.differences, names)
    report = Report.of(link, state, "spark", started, tally.counts, tally.differences)
    await keep(link, report)
    return report


async def _sides(link: Link, name: str) -> dict[str, Side]:
    target = await link.target.fetchval(query("transfer/current_schema"))
    source = (link.source_dsn, link.source_schema, name)
    other = (link.target_dsn, target, None)
    return {
        "source messages": Side(*source, "transfer/rows", MESSAGES),
        "target messages": Side(*other, "transfer/target/rows", MESSAGES),
        "source facts": Side(*source, f"transfer/{link.version}/facts", FACTS),
        "target facts": Side(*other, "transfer/target/facts", FACTS),
    }


async def _ask(link: Link, batch: Sequence[Named]) -> dict[str, tuple[Any, ...]]:
    """What each of the four statements is asked for one batch of partitions."""
    partitions: list[Partition] = [each.partition for each in batch]
    former = [str(each) for each in formers(partitions)]
    known = await pairs(link, partitions)
    return {
        "source messages": (former, ids(partitions)),
        "target messages": (ids(partitions),),
        "source facts": (former, ids(partitions), [str(each) for each in known[0]], *known[1:], False),
        "target facts": (ids(partitions), False),
    }


@dataclass(slots=True)
class Compared:
    """What Spark found: differences by partition, and how much it compared."""

    differences: list[tuple[int, str, str, str | None, str | None]]
    counts: dict[str, int]


def _compare(
    master: str, sides: dict[str, Side], asked: Sequence[dict[str, tuple[Any, ...]]], version: str
) -> Compared:
    spark = session(
        master, app="queen migrate verify", settings={"spark.sql.shuffle.partitions": str(max(4, len(asked)))}
    )
    frames = {name: _read(spark, side, [each[name] for each in asked]) for name, side in sides.items()}
    facts = _compare_facts(frames["source facts"], frames["target facts"])
    messages = _compare_messages(frames["source messages"], frames["target messages"], version)
    counts = {row["kind"]: row["count"] for row in facts.groupBy("kind").count().collect()}
    totals = {"messages": frames["source messages"].select("partition").distinct().count()}
    wrong = [
        tuple(row) for row in facts.where("not (source <=> target)").orderBy("partition", "kind", "name").collect()
    ]
    told = [(part, judge(kind, one, two), name, one, two) for part, kind, name, one, two in wrong]
    return Compared([*messages, *told], counts | totals)


def _read(spark: SparkSession, side: Side, asked: Sequence[tuple[Any, ...]]) -> DataFrame:
    numbers = spark.range(0, len(asked), 1, max(len(asked), 1))
    return numbers.mapInArrow(reader(side, asked), side.columns).persist()


def reader(
    side: Side, asked: Sequence[tuple[Any, ...]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for tasks: for each number they get, the rows of the statement with the arguments of that number."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                loop = asyncio.new_event_loop()
                try:
                    rows = _rows(side, asked[number])
                    while (found := loop.run_until_complete(anext(rows, None))) is not None:
                        yield found
                finally:
                    loop.close()

    return read


async def _rows(side: Side, arguments: tuple[Any, ...]) -> AsyncIterator[pa.RecordBatch]:
    fields = [(field.split(" ")[0], _TYPES[field.split(" ")[1]]) for field in side.columns.split(", ")]
    connection = await asyncpg.connect(side.dsn, server_settings={"search_path": side.schema}, statement_cache_size=0)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            if side.snapshot is not None:
                await connection.execute(query("transfer/import_snapshot").replace("SNAPSHOT", side.snapshot))
            cursor = await connection.cursor(query(side.statement), *(_uuids(each) for each in arguments))
            while rows := await cursor.fetch(ROWS):
                columns = [pa.array([row[place] for row in rows], kind) for place, (_, kind) in enumerate(fields)]
                yield pa.RecordBatch.from_arrays(columns, names=[name for name, _ in fields])
    finally:
        await connection.close()


def _uuids(argument: Any) -> Any:
    """Former ids travel as text."""
    if isinstance(argument, list) and argument and isinstance(argument[0], str) and len(argument[0]) == 36:
        return [UUID(each) for each in argument] if all(len(each) == 36 for each in argument) else argument
    return argument


def _compare_facts(source: DataFrame, target: DataFrame) -> DataFrame:
    key = ["partition", "kind", "name"]
    one = source.withColumnRenamed("value", "source")
    return (
        one.join(target.withColumnRenamed("value", "target"), key, "full_outer")
        .select(*key, "source", "target")
        .persist()
    )


def _compare_messages(
    source: DataFrame, target: DataFrame, version: str
) -> list[tuple[int, str, str, str | None, str | None]]:
    from pyspark.sql import Window  # noqa: PLC0415 - Spark reads the environment while it is imported
    from pyspark.sql import functions as f  # noqa: PLC0415

    order = [f.col("place"), f.col("message")]
    again = f.row_number().over(Window.partitionBy("partition", "transaction_id").orderBy(*order))
    name = f.when((again > 1) & f.lit(version == "v2"), f.concat("transaction_id", f.lit("#"), "message"))
    one = source.select(
        "partition", "message", f.col("place").alias("at"),
        f.coalesce(name, "transaction_id").alias("name"), f.md5("payload").alias("sum"),
    )  # fmt: skip
    two = target.select(
        "partition", "message", f.col("place").alias("seq"), f.col("transaction_id").alias("other"),
        f.md5("payload").alias("other_sum"),
    )  # fmt: skip
    both = one.join(two, ["partition", "message"], "full_outer").persist()
    found = both.select(
        "partition", "message",
        f.array_compact(
            f.array(
                f.when(f.col("seq").isNull(), _told("missing message", f.col("name"), None)),
                f.when(f.col("at").isNull(), _told("unexpected message", None, f.col("other"))),
                f.when(f.col("sum") != f.col("other_sum"), _told("changed payload", f.col("sum"), f.col("other_sum"))),
                f.when(f.col("name") != f.col("other"), _told("changed transaction id", f.col("name"), f.col("other"))),
            )
        ).alias("found"),
    ).where(f.size("found") > 0)  # fmt: skip
    rows = found.select("partition", "message", f.explode("found").alias("f")).select(
        "partition", "f.verdict", "message", "f.source", "f.target"
    )
    common = both.where("at is not null and seq is not null").select(
        "partition", "message",
        f.row_number().over(Window.partitionBy("partition").orderBy("at", "message")).alias("here"),
        f.row_number().over(Window.partitionBy("partition").orderBy("seq")).alias("there"),
    )  # fmt: skip
    moved = common.where("here <> there").groupBy("partition").agg(
        f.min(f.struct("here", "message")).alias("one"), f.min(f.struct("there", "message")).alias("two")
    )  # fmt: skip
    told = [(r[0], r[1], r[2], r[3], r[4]) for r in rows.orderBy("partition", "verdict", "message").collect()]
    shifted = [(r["partition"], r["one"], r["two"]) for r in moved.orderBy("partition").collect()]
    return told + [
        (part, "changed order", one["message"], f"at place {one['here']}", f"{two['message']} is there")
        for part, one, two in shifted
    ]


def _told(verdict: str, source: Any, target: Any) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark reads the environment while it is imported

    nothing = f.lit(None).cast("string")
    one = nothing if source is None else source
    two = nothing if target is None else target
    return f.struct(f.lit(verdict).alias("verdict"), one.alias("source"), two.alias("target"))


def _named(found: Sequence[tuple[int, str, str, str | None, str | None]], names: dict[int, Named]) -> list[Difference]:
    """Differences by the names of their partitions, and of one partition not more than people read."""
    by_partition: dict[int, list[Difference]] = {}
    for partition, verdict, name, source, target in found:
        named = names[partition]
        by_partition.setdefault(partition, []).append(
            Difference(verdict, named.queue, named.name, name, source, target)
        )
    shown: list[Difference] = []
    for partition, each in sorted(by_partition.items()):
        shown += each[:MOST]
        if len(each) > MOST:
            named = names[partition]
            shown.append(Difference(f"{len(each) - MOST} more differences", named.queue, named.name, "", None, None))
    return shown
