"""What the traces of each day came to in figures that add up, and what they come to together.

Percentiles are read from counts (see `sketches`): they are within 1 % of the true ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.pipelines.sketches import percentiles, place

KINDS: Final = ("totals", "edges", "shapes", "places", "slowest", "wanted", "broken")
BROKEN_KEPT: Final = 10_000
BROKEN_OF_A_DAY: Final = 1000
SHAPES_KEPT: Final = 500
DRAWN: Final = 50
ONE_DAY: Final = "1970-01-01"
Part = dict[str, Any]


def parts(
    found: DataFrame, slowest: int, wanted: Sequence[str], *, whole: bool = False
) -> Iterator[tuple[str, Iterable[Part]]]:
    """By kind, what the traces of each day came to; `whole`: of all days as if they were one."""
    filed = found.withColumn("day", F.to_date(F.lit(ONE_DAY)) if whole else F.to_date("started"))
    yield "totals", totals(filed)
    yield "edges", edges_of(filed)
    common = shapes_of(filed).persist()
    yield "shapes", (shape_part(row) for row in common.collect())
    yield "places", places_of(filed, common)
    common.unpersist()
    shown = filed.drop("edges", "nodes")
    ranked = Window.partitionBy("day").orderBy(F.desc("total_ms"), "trace_id")
    yield "slowest", map(kept_whole, ranked_first(shown, ranked, slowest).collect())
    yield "wanted", map(kept_whole, shown.where(F.col("trace_id").isin(*wanted)).collect()) if wanted else ()
    broken = shown.where("broken").select("day", "trace_id", "spans", "shape", "missing", "started", "total_ms")
    by_id = Window.partitionBy("day").orderBy("trace_id")
    yield "broken", map(kept_whole, ranked_first(broken, by_id, BROKEN_OF_A_DAY).collect())


def ranked_first(frame: DataFrame, window: Any, count: int) -> DataFrame:
    """The first few of each day."""
    return frame.withColumn("rank", F.row_number().over(window)).where(F.col("rank") <= count).drop("rank")


def counted(frame: DataFrame, key: Sequence[str], values: Mapping[str, Column]) -> DataFrame:
    """How many values of each key lie where, as maps of maps."""
    each = F.array(
        *[F.struct(F.lit(name).alias("what"), place(value).alias("place")) for name, value in values.items()]
    )
    single = frame.select(*key, F.inline(each)).where("place is not null").groupBy(*key, "what", "place").count()
    entries = F.map_from_entries(F.collect_list(F.struct(F.col("place").cast("string"), "count")))
    whats = single.groupBy(*key, "what").agg(entries.alias("places"))
    return whats.groupBy(*key).agg(F.map_from_entries(F.collect_list(F.struct("what", "places"))).alias("counts"))


def totals(found: DataFrame) -> Iterator[Part]:
    """Each day as a whole."""
    sums = found.groupBy("day").agg(
        F.count("*").alias("count"), F.sum(F.col("broken").cast("long")).alias("broken"), F.max("hops").alias("hops")
    )
    for row in sums.join(counted(found, ["day"], {"total": F.col("total_ms")}), "day", "left").collect():
        value = {
            "sums": {"count": row["count"], "broken": row["broken"]},
            "counts": row["counts"] or {},
            "most": {"hops": row["hops"]},
        }
        yield {"queue": "", "day": row["day"], "key": "", "value": value}


def edges_of(found: DataFrame) -> Iterator[Part]:
    """From queue to queue: how often, how long, and how much of the critical paths it makes up."""
    key = ["day", "source", "target"]
    single = found.select("day", F.explode("edges").alias("edge")).select("day", "edge.*")
    critical = F.sum(F.when(F.col("critical"), F.col("latency_ms")).otherwise(0.0))
    sums = single.groupBy(*key).agg(F.count("*").alias("count"), critical.alias("critical_ms"))
    for row in sums.join(counted(single, key, {"latency": F.col("latency_ms")}), key, "left").collect():
        names = {"source": row["source"], "target": row["target"]}
        sums_of = {"count": row["count"], "critical_ms": row["critical_ms"]}
        value = {"sums": sums_of, "counts": row["counts"] or {}, "most": names}
        yield {"queue": "", "day": row["day"], "key": [*names.values()], "value": value}


def shapes_of(found: DataFrame) -> DataFrame:
    """The most frequent shapes of whole traces of each day: how many, how long they took, and one to look at."""
    key = ["day", "shape"]
    whole = found.where("not broken")
    slowest = F.max(F.struct("total_ms", "trace_id"))
    sums = whole.groupBy(*key).agg(F.count("*").alias("count"), F.max("hops").alias("hops"), slowest.alias("slowest"))
    largest = Window.partitionBy("day").orderBy(F.desc("count"), "shape")
    common = ranked_first(sums, largest, SHAPES_KEPT)
    return common.join(counted(whole, key, {"total": F.col("total_ms")}), key, "left")


def shape_part(row: Row) -> Part:
    """A shape on a day."""
    most = {"shape": row["shape"], "hops": row["hops"], "slowest": [row["slowest"][0], row["slowest"][1]]}
    value = {"sums": {"count": row["count"]}, "counts": row["counts"] or {}, "most": most}
    return {"queue": "", "day": row["day"], "key": row["shape"], "value": value}


def places_of(found: DataFrame, common: DataFrame) -> Iterator[Part]:
    """How long a message waits and is worked on, by its place in a shape."""
    key = ["day", "shape", "place"]
    mine = found.where("not broken").join(F.broadcast(common.select("day", "shape")), ["day", "shape"], "left_semi")
    single = mine.select("day", "shape", F.explode("nodes").alias("node")).select("day", "shape", "node.*")
    times = counted(single.withColumnRenamed("place", "where_"), ["day", "shape", "where_"], {
        "wait": F.col("wait_ms"), "work": F.col("work_ms"),
    }).withColumnRenamed("where_", "place")  # fmt: skip
    sums = single.groupBy(*key).agg(F.count("*").alias("count"))
    for row in sums.join(times, key, "left").collect():
        names = {"shape": row["shape"], "place": row["place"]}
        value = {"sums": {"count": row["count"]}, "counts": row["counts"] or {}, "most": names}
        yield {"queue": "", "day": row["day"], "key": [*names.values()], "value": value}


def kept_whole(row: Row) -> Part:
    """A trace that people look at."""
    trace = row.asDict(recursive=True)
    day = trace.pop("day")
    began = trace["started"].timestamp()
    value = {"sums": {"total": trace["total_ms"], "started": -began}, "day": str(day), "trace": trace}
    return {"queue": "", "day": day, "key": trace["trace_id"], "value": value}


def total_of(days: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """The figures of all traces."""
    if not days:
        return {"traces": 0, "broken": 0, "hops": 0, **dict.fromkeys(("total_p50_ms", "total_p95_ms", "total_p99_ms"))}
    (row,) = days
    ranks = percentiles(row["counts"].get("total", {}), (0.5, 0.95, 0.99))
    return {
        "traces": row["sums"]["count"],
        "broken": row["sums"]["broken"],
        "hops": row["most"]["hops"],
        **dict(zip(("total_p50_ms", "total_p95_ms", "total_p99_ms"), ranks, strict=True)),
    }


def edges(days: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """From queue to queue, slowest first."""
    found = []
    for row in days:
        ranks = percentiles(row["counts"].get("latency", {}), (0.5, 0.95, 0.99))
        times = {f"latency_p{rank}_ms": value for rank, value in zip((50, 95, 99), ranks, strict=True)}
        names = {name: row["most"][name] for name in ("source", "target")}
        found.append({**names, "count": row["sums"]["count"], **times, "critical_ms": row["sums"]["critical_ms"]})
    yield from sorted(found, key=lambda row: -(row["latency_p95_ms"] or 0))


def shapes(days: Iterable[Mapping[str, Any]], places: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The shapes of whole traces, each with its places; the most frequent first."""
    inside: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in places:
        wait, work = (percentiles(row["counts"].get(what, {}), [0.5])[0] for what in ("wait", "work"))
        one = {"shape": row["most"]["shape"], "place": row["most"]["place"], "count": row["sums"]["count"]}
        inside[one["shape"]].append({**one, "wait_p50_ms": wait, "work_p50_ms": work})
    ordered = sorted(days, key=lambda row: (-row["sums"]["count"], row["most"]["shape"]))
    for row in ordered[:DRAWN]:
        shape = row["most"]["shape"]
        ranks = percentiles(row["counts"].get("total", {}), (0.5, 0.95))
        times = dict(zip(("total_p50_ms", "total_p95_ms"), ranks, strict=True))
        hops, slowest = row["most"]["hops"], row["most"]["slowest"][1]
        told = {"shape": shape, "count": row["sums"]["count"], "hops": hops, **times, "slowest": slowest}
        yield {**told, "places": inside[shape]}
