"""traces: how work flows from queue to queue, by trace id and parent links.

A hop is measured by the group that was at work on the message when the next one was pushed. The critical path
leads to the message that was finished last. A trace is broken when a parent is nowhere in the lake.

A trace is filed under the day it began. A run goes through the traces of the days on which one began of which
anything is new; what the other days came to is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.pipelines.changes import Reading, follow, note
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.flows import BROKEN_KEPT, DRAWN, KINDS, Part, edges, parts, shapes, total_of
from queen.spark.pipelines.journeys import handled
from queen.spark.pipelines.memory import EVERYTHING, Memory, Seen
from queen.spark.pipelines.pictures import draw_shape
from queen.spark.pipelines.rollups import within
from queen.spark.pipelines.spans import Handling, Span, explain
from queen.spark.pipelines.tables import TABLES, read_tables
from queen.spark.pipelines.tracing import days_with_news, traces_of

LARGEST: Final = 10_000
EXPLAINED: Final = """
    trace_id string, spans long, hops long, started timestamp, total_ms double, shape string, broken boolean,
    missing array<string>,
    path array<struct<id: string, queue: string, group: string, wait_ms: double, work_ms: double>>,
    edges array<struct<source: string, target: string, latency_ms: double, critical: boolean>>,
    nodes array<struct<place: string, wait_ms: double, work_ms: double>>
"""


@pipeline(
    "traces",
    summary="Hops, critical paths, slowest edges, shapes and broken traces",
    reads=TABLES,
    options={"slowest": "20", "traces": ""},
    steady=True,
)
def traces(context: Context) -> Outcome:
    """Follow every trace of which anything is new; of a period, every one that has a message in it."""
    if not context.options["slowest"].isdigit():
        raise SparkError("INVALID_OPTION", f"option `slowest` must be a number, not {context.options['slowest']!r}")
    context.progress.step("following traces", 0, 1)
    told = in_all(context) if context.period == Period() else of_a_period(context)
    context.progress.step("following traces", 1, 1)
    return told


def of_a_period(context: Context) -> Outcome:
    """The traces of a period, as if they had begun on one day."""
    found = explained(gathered(*read_tables(context), context.period)).persist()
    try:
        rows = {kind: list(rows) for kind, rows in described(context, found, whole=True)}
    finally:
        found.unpersist()
    return report(context, {kind: [row["value"] for row in part] for kind, part in rows.items()})


def in_all(context: Context) -> Outcome:
    """The traces of the whole time, from those of its days."""
    with closing(Database(context.url)) as database:
        memory = Memory(database, context.lake.identity.id, "traces")
        reading = follow(context, memory, context.options)
        try:
            found, days = followed(reading, memory)
            memory.forget_days(KINDS, {"": EVERYTHING if days is None else days})
            for kind, rows in described(context, found):
                memory.keep_days(kind, rows)
            found.unpersist()
            note(reading, context.options)
            figures = {**reading.figures(), **({} if days is None else {"days": len(days)})}
        finally:
            reading.close()
        kept: dict[str, list[dict[str, Any]]] = {kind: memory.together(kind) for kind in ("totals", "edges", "places")}
        kept["shapes"] = memory.together("shapes", limit=DRAWN)
        kept["slowest"] = list(memory.days("slowest", by="total", limit=int(context.options["slowest"])))
        kept["wanted"] = list(memory.days("wanted"))
        kept["broken"] = list(memory.days("broken", by="started", limit=BROKEN_KEPT))
    return report(context, kept, figures)


def followed(reading: Reading, memory: Memory) -> tuple[DataFrame, set[str] | None]:
    """The traces to go through, and the days on which they began; None: all."""
    seen = memory.recall("traces", Seen)
    whole = seen is None or seen.options != dict(reading.context.options)
    days = None if whole or seen is None else days_with_news(reading, seen, memory)
    if days is None:
        messages, deliveries, letters = (reading.frame(table, reading.state.of(table)) for table in TABLES)
        found = gathered(messages, deliveries, letters, Period())
    else:
        found = gathered_of(*traces_of(reading, days))
    return explained(found).persist(), days


def described(context: Context, found: DataFrame, *, whole: bool = False) -> Iterator[tuple[str, Iterable[Part]]]:
    """What each day came to, by kind."""
    wanted = [name.strip() for name in context.options["traces"].split(",") if name.strip()]
    return parts(found, int(context.options["slowest"]), wanted, whole=whole)


def report(
    context: Context, kept: Mapping[str, Sequence[Mapping[str, Any]]], figures: Mapping[str, object] | None = None
) -> Outcome:
    """Write what people look at."""
    shown = {one["trace"]["trace_id"]: one["trace"] for one in (*kept["slowest"], *kept["wanted"])}
    rows = context.write("traces", shown.values(), key="trace_id")
    rows += context.write("edges", edges(kept["edges"]), key="source,target")
    rows += context.write("shapes", drawn(shapes(kept["shapes"], kept["places"])), key="shape")
    broken = sorted((one["trace"] for one in kept["broken"]), key=lambda one: str(one["trace_id"]))
    rows += context.write("broken", broken[:BROKEN_KEPT], key="trace_id")
    return Outcome(rows, {**total_of(kept["totals"]), **(figures or {})})


def gathered(messages: DataFrame, deliveries: DataFrame, letters: DataFrame, period: Period) -> DataFrame:
    """A row per trace with a message in the period: all its messages, and parents that are nowhere to be found."""
    traced = messages.where("trace_id is not null")
    if period != Period():
        chosen = within(traced, "created_at", period).select("trace_id").distinct()
        traced = traced.join(chosen, "trace_id", "left_semi")
    return gathered_of(traced, deliveries, letters, messages.select("id"))


def gathered_of(traced: DataFrame, deliveries: DataFrame, letters: DataFrame, ids: DataFrame) -> DataFrame:
    """A row per trace: all its messages, and parents that are not among the ids. Those too large are left out first."""
    large = traced.groupBy("trace_id").count().where(F.col("count") > LARGEST)
    done = handled(deliveries, letters).select(
        "partition_id",
        "seq",
        F.struct(
            F.col("consumer_group").alias("group"),
            F.unix_micros("first_leased_at").alias("leased"),
            F.unix_micros("finished_at").alias("finished"),
        ).alias("handling"),
    )
    by_message = done.groupBy("partition_id", "seq").agg(F.collect_list("handling").alias("handled"))
    parents = ids.select(F.col("id").alias("parent_id"), F.lit(True).alias("known"))
    span = F.struct("id", "parent_id", "queue", F.unix_micros("created_at").alias("created"), "handled")
    absent = F.when(F.col("parent_id").isNotNull() & F.col("known").isNull(), F.col("parent_id"))
    return (
        traced.join(F.broadcast(large), "trace_id", "left_anti")
        .select("trace_id", "partition_id", "seq", "id", "parent_id", "queue", "created_at")
        .join(by_message, ["partition_id", "seq"], "left")
        .join(parents, "parent_id", "left")
        .groupBy("trace_id")
        .agg(F.collect_list(span).alias("spans"), F.collect_set(absent).alias("absent"))
    )


def explained(found: DataFrame) -> DataFrame:
    """What there is to know about each trace."""
    return found.mapInArrow(explain_batches, EXPLAINED)


def explain_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The traces of one task."""
    schema = explained_schema()
    for batch in batches:
        rows = [
            explain(row["trace_id"], [made(one) for one in row["spans"]], row["absent"]) for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def made(row: dict[str, Any]) -> Span:
    """A message as a span."""
    handling = [Handling(one["group"], one["leased"], one["finished"]) for one in row["handled"] or ()]
    return Span(row["id"], row["parent_id"], row["queue"], row["created"], handling)


def explained_schema() -> pa.Schema:
    """EXPLAINED as Arrow has it."""
    hop = [("id", pa.string()), ("queue", pa.string()), ("group", pa.string())]
    times = [("wait_ms", pa.float64()), ("work_ms", pa.float64())]
    link = [("source", pa.string()), ("target", pa.string()), ("latency_ms", pa.float64()), ("critical", pa.bool_())]
    return pa.schema(
        [
            ("trace_id", pa.string()),
            ("spans", pa.int64()),
            ("hops", pa.int64()),
            ("started", pa.timestamp("us", tz="UTC")),
            ("total_ms", pa.float64()),
            ("shape", pa.string()),
            ("broken", pa.bool_()),
            ("missing", pa.list_(pa.string())),
            ("path", pa.list_(pa.struct([*hop, *times]))),
            ("edges", pa.list_(pa.struct(link))),
            ("nodes", pa.list_(pa.struct([("place", pa.string()), *times]))),
        ]
    )


def drawn(found: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Shapes, each with its picture."""
    for row in found:
        nodes = sorted(row["places"], key=lambda part: str(part["place"]))
        yield {**row, "places": nodes, "picture": draw_shape(nodes, row["count"])}
