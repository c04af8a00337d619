"""traces: how work flows from queue to queue, by trace id and parent links.

A hop is measured by the group that was at work on the message when the next one was pushed. The critical path
leads to the message that was finished last. A trace is broken when a parent is nowhere in the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.errors import SparkError
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.journeys import handled
from queen.spark.pipelines.pictures import draw_shape
from queen.spark.pipelines.rollups import within
from queen.spark.pipelines.spans import Handling, Span, explain
from queen.spark.pipelines.tables import TABLES, read_tables

LARGEST: Final = 10_000
BROKEN_KEPT: Final = 10_000
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
)
def traces(context: Context) -> Outcome:
    """Follow every trace that has a message in the period."""
    if not context.options["slowest"].isdigit():
        raise SparkError("INVALID_OPTION", f"option `slowest` must be a number, not {context.options['slowest']!r}")
    messages, deliveries, letters = read_tables(context)
    context.progress.step("following traces", 0, 1)
    found = explained(gathered(messages, deliveries, letters, context.period)).persist()
    try:
        return report(context, found)
    finally:
        found.unpersist()


def report(context: Context, found: DataFrame) -> Outcome:
    """Write what people look at."""
    row = found.agg(
        F.count("*").alias("traces"),
        F.sum(F.col("broken").cast("long")).alias("broken"),
        F.max("hops").alias("hops"),
        F.percentile("total_ms", F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99))).alias("total"),
    ).first()
    facts = row.asDict() if row else {}
    wanted = [name.strip() for name in context.options["traces"].split(",") if name.strip()]
    slowest = found.orderBy(F.desc("total_ms"), "trace_id").limit(int(context.options["slowest"]))
    kept = (
        slowest.union(found.where(F.col("trace_id").isin(wanted))).dropDuplicates(["trace_id"]) if wanted else slowest
    )
    rows = context.write("traces", kept.drop("edges", "nodes"), key="trace_id")
    rows += context.write("edges", edges(found), key="source,target")
    rows += context.write("shapes", drawn(shapes(found), places(found)), key="shape")
    broken = found.where("broken").orderBy("trace_id").limit(BROKEN_KEPT)
    rows += context.write("broken", broken.select("trace_id", "spans", "shape", "missing", "started"), key="trace_id")
    context.progress.step("following traces", 1, 1)
    totals = facts.get("total") or [None] * 3
    return Outcome(
        rows,
        {
            "traces": facts.get("traces") or 0,
            "broken": facts.get("broken") or 0,
            "hops": facts.get("hops") or 0,
            **dict(zip(("total_p50_ms", "total_p95_ms", "total_p99_ms"), totals, strict=True)),
        },
    )


def gathered(messages: DataFrame, deliveries: DataFrame, letters: DataFrame, period: Period) -> DataFrame:
    """A row per trace with a message in the period: all its messages, and parents that are nowhere to be found."""
    traced = messages.where("trace_id is not null")
    chosen = within(traced, "created_at", period).select("trace_id").distinct()
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
    parents = messages.select(F.col("id").alias("parent_id"), F.lit(True).alias("known"))
    span = F.struct("id", "parent_id", "queue", F.unix_micros("created_at").alias("created"), "handled")
    absent = F.when(F.col("parent_id").isNotNull() & F.col("known").isNull(), F.col("parent_id"))
    return (
        traced.join(chosen, "trace_id", "left_semi")
        .join(by_message, ["partition_id", "seq"], "left")
        .join(parents, "parent_id", "left")
        .groupBy("trace_id")
        .agg(F.count("*").alias("size"), F.collect_list(span).alias("spans"), F.collect_set(absent).alias("absent"))
        .where(F.col("size") <= LARGEST)
        .drop("size")
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


def edges(found: DataFrame) -> DataFrame:
    """From queue to queue: how often, how long, and how much of the critical paths it makes up; slowest first."""
    single = found.select(F.explode("edges").alias("edge")).select("edge.*")
    ranks = F.percentile("latency_ms", F.array(F.lit(0.5), F.lit(0.95), F.lit(0.99)))
    return (
        single.groupBy("source", "target")
        .agg(
            F.count("*").alias("count"),
            ranks.alias("latency"),
            F.sum(F.when(F.col("critical"), F.col("latency_ms")).otherwise(0.0)).alias("critical_ms"),
        )
        .select(
            "source",
            "target",
            "count",
            *[F.col("latency")[place].alias(f"latency_p{rank}_ms") for place, rank in enumerate((50, 95, 99))],
            "critical_ms",
        )
        .orderBy(F.desc("latency_p95_ms"))
    )


def shapes(found: DataFrame) -> DataFrame:
    """The shapes of whole traces: how many, how long they took, and one to look at."""
    ranks = F.percentile("total_ms", F.array(F.lit(0.5), F.lit(0.95)))
    return (
        found.where("not broken")
        .groupBy("shape")
        .agg(
            F.count("*").alias("count"),
            ranks.alias("total"),
            F.max("hops").alias("hops"),
            F.max_by("trace_id", "total_ms").alias("slowest"),
        )
        .select(
            "shape",
            "count",
            "hops",
            F.col("total")[0].alias("total_p50_ms"),
            F.col("total")[1].alias("total_p95_ms"),
            "slowest",
        )
    )


def places(found: DataFrame) -> DataFrame:
    """How long a message waits and is worked on, by its place in a shape."""
    single = found.where("not broken").select("shape", F.explode("nodes").alias("node")).select("shape", "node.*")
    return single.groupBy("shape", "place").agg(
        F.count("*").alias("count"),
        F.percentile("wait_ms", F.lit(0.5)).alias("wait_p50_ms"),
        F.percentile("work_ms", F.lit(0.5)).alias("work_p50_ms"),
    )


def drawn(found: DataFrame, by_place: DataFrame, limit: int = 50) -> Iterator[dict[str, Any]]:
    """The most frequent shapes, each with its picture."""
    parts: dict[str, list[dict[str, Any]]] = {}
    common = found.orderBy(F.desc("count"), "shape").limit(limit)
    for row in by_place.join(common.select("shape"), "shape", "left_semi").toLocalIterator():
        parts.setdefault(row["shape"], []).append(row.asDict())
    for row in common.toLocalIterator():
        nodes = sorted(parts.get(row["shape"], []), key=lambda part: str(part["place"]))
        yield {**row.asDict(), "places": nodes, "picture": draw_shape(nodes, row["count"])}
