"""triage: dead letters and failed deliveries in clusters of the same error, queue and version.

Ids, numbers, addresses and quoted parts of an error are left out, as `queen.normalise_error` does. The version is a
field of the payload. The delivery log keeps no error texts, so deliveries that failed and recovered are told apart
by their outcome.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.database import Database
from queen.spark.lake.files import EPOCH, TICK
from queen.spark.pipelines.changes import Reading, earlier, follow, is_new, new_files, note
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline
from queen.spark.pipelines.journeys import LANE
from queen.spark.pipelines.memory import Memory, Seen
from queen.spark.pipelines.results import AT_ONCE
from queen.spark.pipelines.rollups import within
from queen.spark.pipelines.tables import TABLES, read_tables

CLUSTER: Final = ("kind", "queue", "error", "version")
EXAMPLES: Final = 3
SLOTS: Final = 24
MOST: Final = 500
KEPT: Final = 1000
"""As many clusters of a day, and partitions of a cluster, as Spark looks for in each part by itself."""
MINUTE_US: Final = 60_000_000
PLACEHOLDER: Final = re.compile(r"<(?:id|x|n)>")
FAILED: Final = {"failed": "failed, then recovered", "expired": "lease ran out, then recovered"}
KINDS: Final = ("clusters", "examples", "totals")


@pipeline(
    "triage",
    summary="Dead letters and failed deliveries by error, queue and version, with the command to redrive them",
    reads=(*TABLES, "redrives"),
    options={"version": "version"},
    steady=True,
)
def triage(context: Context) -> Outcome:
    """Cluster what failed; only the days on which anything is other than at the last run are gone through again."""
    context.progress.step("clustering", 0, 1)
    found, figures = in_all(context) if context.period == Period() else (of_a_period(context), {})
    rows = context.write("clusters", found, key="kind,queue,version,error")
    context.progress.step("clustering", 1, 1)
    dead = [cluster for cluster in found if cluster["kind"] == "dead"]
    counted = {
        "clusters": len(dead),
        "dead_letters": sum(cluster["count"] for cluster in dead),
        "recovered": sum(cluster["count"] for cluster in found if cluster["kind"] == "recovered"),
        "rising": sum(cluster["trend"] == "rising" for cluster in dead),
    }
    return Outcome(rows, {**counted, **figures})


def of_a_period(context: Context) -> list[dict[str, Any]]:
    """The clusters of a period, as if it were one day."""
    messages, deliveries, letters = read_tables(context)
    field = context.options["version"]
    redrives = context.lake.read(context.spark, "redrives")
    alive = recovered(messages, stumbled(deliveries, letters), field).where("id is not null")
    every = died(letters, redrives, field).unionByName(alive)
    return list(described_at_once(within(every, "failed_at", context.period)))


def in_all(context: Context) -> tuple[list[dict[str, Any]], dict[str, object]]:
    """The clusters of the whole time, from those of its days; and how many of these were gone through."""
    with closing(Database(context.url)) as database:
        memory = Memory(database, context.lake.identity.id, "triage")
        known = follow(context, memory, context.options)
        reading = with_redrives(known, memory.recall("triage", Seen))
        try:
            failures = reading.hold(failed_again(reading, context.options["version"]))
            memory.forget_days(KINDS, reading.first)
            keep(memory, failures)
            note(reading, context.options)
            figures = reading.figures()
        finally:
            known.close()
            reading.close()
        totals: Counter[str] = Counter()
        for row in memory.together("totals"):
            totals[row["most"]["kind"]] += row["sums"]["count"]
        found = list(described(merged(memory)))
    figures |= {name: totals[kind] for name, kind in (("dead_letters", "dead"), ("recovered", "recovered"))}
    return found, figures


def with_redrives(reading: Reading, seen: Seen | None) -> Reading:
    """What is read, from the day on that the oldest dead letter failed which has been redriven since."""
    files = [] if seen is None else new_files(reading.state, seen, "redrives")
    if seen is None or not files:
        return reading
    fresh = reading.frame("redrives", files).where(is_new("redriven_at", seen, "redrives"))
    first = dict(reading.first)
    for row in fresh.groupBy("queue").agg(F.min(F.to_date("failed_at")).alias("day")).collect():
        earlier(first, row.queue, row.day.isoformat())
    return replace(reading, first=first, held=[])


def failed_again(reading: Reading, field: str) -> DataFrame:
    """What failed on the days that are gone through again."""
    redrives = reading.frame("redrives", reading.files("redrives", reading.first))
    dead = died(reading.frame("dead_letters", reading.files("dead_letters", reading.first)), redrives, field)
    messages, deliveries, letters = reading.tables
    failed = stumbled(deliveries, letters).join(F.broadcast(reading.starts()), "queue").where("ended_at >= first")
    alive = reading.hold(recovered(messages, failed, field))
    if alive.where("id is null").limit(1).count():
        # A message that was handled again long after it was finished: it is in an older file.
        alive = recovered(reading.frame("messages", reading.state.of("messages")), failed, field)
    return dead.unionByName(alive.where("id is not null"))


def keep(memory: Memory, failures: DataFrame) -> None:
    """Keep what each day came to."""
    totals = failures.groupBy("kind", "queue", F.to_date("failed_at").alias("day")).count()
    memory.keep_days(
        "totals",
        (
            {
                "queue": row["queue"], "day": row["day"], "key": row["kind"],
                "value": {"sums": {"count": row["count"]}, "most": {"kind": row["kind"]}},
            }
            for row in totals.collect()
        ),
    )  # fmt: skip
    told = daily(failures)
    while rows := list(islice(told, AT_ONCE)):
        places = [{name: row[name] for name in ("queue", "day", "key")} for row in rows]
        values = [{part: row[part] for part in ("sums", "counts", "least", "most")} for row in rows]
        memory.keep_days("clusters", [{**at, "value": value} for at, value in zip(places, values, strict=True)])
        shown = [
            {"sums": {"at": row["most"]["last_seen"]}, "key": row["key"], "examples": row["examples"]} for row in rows
        ]
        memory.keep_days("examples", [{**at, "value": value} for at, value in zip(places, shown, strict=True)])


def merged(memory: Memory) -> Iterator[dict[str, Any]]:
    """The largest clusters of all days, each with its newest examples."""
    examples: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in memory.days("examples", by="at", each=EXAMPLES):
        examples[tuple(row["key"])] += row["examples"]
    for row in memory.together("clusters", limit=MOST):
        key = tuple(row["most"][name] for name in ("kind", "error", "version"))
        yield {**row, "examples": examples[key[0], row["queue"], *key[1:]]}


def normalised(error: Column) -> Column:
    """The part of an error that stays the same from case to case; the same as `queen.normalise_error`."""
    text = F.split(error, "\n")[0]
    for pattern, stands_for in (
        (r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"(?i)0x[0-9a-f]+", "<x>"),
        (r"'[^']*'|\"[^\"]*\"", "<x>"),
        (r"\d+([.,:]\d+)*", "<n>"),
    ):
        text = F.regexp_replace(text, pattern, stands_for)
    return F.substring(text, 1, 200)


def version_of(payload: Column, field: str) -> Column:
    """The version a payload names, or nothing."""
    return F.coalesce(F.get_json_object(payload, f"$['{field}']"), F.lit(""))


def died(letters: DataFrame, redrives: DataFrame, field: str) -> DataFrame:
    """Dead letters as failures."""
    again = redrives.select(*LANE, "seq", "failed_at", F.lit(True).alias("again")).distinct()
    return (
        letters.where("queue is not null")
        .join(again, [*LANE, "seq", "failed_at"], "left")
        .select(
            F.lit("dead").alias("kind"),
            "queue",
            normalised(F.col("error_message")).alias("error"),
            version_of(F.col("payload"), field).alias("version"),
            "consumer_group",
            "partition",
            "failed_at",
            "id",
            "payload",
            F.col("error_message").alias("text"),
            (F.col("redriven_at").isNotNull() | F.col("again").isNotNull()).alias("redriven"),
        )
    )


def stumbled(deliveries: DataFrame, letters: DataFrame) -> DataFrame:
    """Failed deliveries whose message did not become a dead letter.

    The message that failed is the first of the next batch of the lane.
    """
    lane = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    following = F.lead("batch_from").over(lane)
    seq = F.when(following.between(F.col("batch_from"), F.col("batch_to")), following).otherwise(F.col("batch_from"))
    failed = deliveries.withColumn("seq", seq).where(F.col("outcome").isin(*FAILED)).where("queue is not null")
    return failed.join(letters.select(*LANE, "seq").distinct(), [*LANE, "seq"], "left_anti")


def recovered(messages: DataFrame, failed: DataFrame, field: str) -> DataFrame:
    """Deliveries that failed and recovered as failures; those of messages that are not there have no id."""
    texts = F.create_map(*[F.lit(word) for pair in FAILED.items() for word in pair])
    return failed.join(messages.select("partition_id", "seq", "id", "payload"), ["partition_id", "seq"], "left").select(
        F.lit("recovered").alias("kind"),
        "queue",
        texts[F.col("outcome")].alias("error"),
        version_of(F.col("payload"), field).alias("version"),
        "consumer_group",
        "partition",
        F.col("ended_at").alias("failed_at"),
        "id",
        "payload",
        F.lit("").alias("text"),
        F.lit(False).alias("redriven"),
    )


def daily(failures: DataFrame, day: Column | None = None) -> Iterator[dict[str, Any]]:
    """The largest clusters of each day: how many, since when and until when, where, and some to look at."""
    filed = failures.withColumn("day", F.to_date("failed_at") if day is None else day)
    key = [*CLUSTER, "day"]
    largest = Window.partitionBy("day").orderBy(F.desc("count"), *CLUSTER)
    base = filed.groupBy(*key).agg(
        F.count("*").alias("count"),
        F.sum(F.col("redriven").cast("long")).alias("redriven"),
        F.unix_micros(F.min("failed_at")).alias("first_seen"),
        F.unix_micros(F.max("failed_at")).alias("last_seen"),
    )
    chosen = base.withColumn("rank", F.row_number().over(largest)).where(F.col("rank") <= KEPT).drop("rank")
    newest = Window.partitionBy(*key).orderBy(F.desc("failed_at"), "id")
    shown = filed.withColumn("rank", F.row_number().over(newest)).where(F.col("rank") <= EXAMPLES)
    example = F.struct("failed_at", "id", "partition", "text", "payload")
    examples = shown.groupBy(*key).agg(F.sort_array(F.collect_list(example), asc=False).alias("examples"))
    joined = chosen.join(placed(filed, key), key, "left").join(examples, key, "left")
    for row in joined.toLocalIterator():
        given = row.asDict(recursive=True)
        yield {
            "queue": given["queue"], "day": given["day"], "key": [given[name] for name in CLUSTER],
            "sums": {name: given[name] for name in ("count", "redriven")},
            "counts": given["counts"] or {},
            "least": {"first_seen": given["first_seen"]},
            "most": {name: given[name] for name in ("last_seen", "kind", "error", "version")},
            "examples": given["examples"],
        }  # fmt: skip


def placed(failures: DataFrame, key: list[str]) -> DataFrame:
    """How many of each cluster lie in which minute, group and partition.

    Partitions are told by a hash; of many the least are kept, from which one can tell how many there are.
    """
    minute = F.floor(F.unix_micros("failed_at") / MINUTE_US)
    parts = {
        "minutes": (minute, minute.cast("string")),
        "groups": (F.lit(0).cast("long"), F.col("consumer_group")),
        "partitions": (F.xxhash64("partition"), F.xxhash64("partition").cast("string")),
    }
    each = F.array(*[
        F.struct(F.lit(what).alias("what"), rank.alias("rank"), place.alias("place"))
        for what, (rank, place) in parts.items()
    ])  # fmt: skip
    counted = failures.select(*key, F.inline(each)).groupBy(*key, "what", "rank", "place").count()
    least = Window.partitionBy(*key).orderBy("rank")
    few = (
        counted.where("what = 'partitions'")
        .withColumn("number", F.row_number().over(least))
        .where(F.col("number") <= KEPT)
        .drop("number")
    )
    entries = F.map_from_entries(F.collect_list(F.struct("place", "count")))
    whats = counted.where("what <> 'partitions'").unionByName(few).groupBy(*key, "what").agg(entries.alias("places"))
    return whats.groupBy(*key).agg(F.map_from_entries(F.collect_list(F.struct("what", "places"))).alias("counts"))


def described_at_once(failures: DataFrame) -> Iterator[dict[str, Any]]:
    """The largest clusters of some failures that are not divided into days."""
    kept = failures.persist()
    try:
        rows = list(daily(kept, F.to_date(F.lit("1970-01-01"))))
    finally:
        kept.unpersist()
    yield from described(sorted(rows, key=lambda row: -row["sums"]["count"])[:MOST])


def described(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Clusters with their trend and what to do about them."""
    known = list(rows)
    minutes = [int(minute) for row in known for minute in row["counts"]["minutes"]]
    start, end = min(minutes, default=0), max(minutes, default=0)
    found = [
        {
            **{name: row["most"][name] for name in ("kind", "error", "version")},
            "queue": row["queue"], **row["sums"],
            "first_seen": moment(row["least"]["first_seen"]), "last_seen": moment(row["most"]["last_seen"]),
            "partitions": how_many(row["counts"]["partitions"]),
            "groups": sorted(row["counts"]["groups"]),
            "examples": sorted(row["examples"], key=lambda one: str(one["failed_at"]), reverse=True)[:EXAMPLES],
            "slots": in_slots(row["counts"]["minutes"], start, end),
        }
        for row in known
    ]  # fmt: skip
    for cluster in found:
        yield {**cluster, "trend": trend(cluster["slots"]), "redrive": commands(cluster, found)}


def moment(microseconds: int) -> datetime:
    """A time that was kept as a number."""
    return EPOCH + microseconds * TICK


def how_many(hashes: Mapping[str, int]) -> int:
    """How many different ones there are, going by the least of their hashes: 1000 of them tell it within 3 %."""
    if len(hashes) < KEPT:
        return len(hashes)
    last = sorted(int(each) for each in hashes)[KEPT - 1]
    return round((KEPT - 1) / ((last + 2**63) / 2**64))


def in_slots(minutes: Mapping[str, int], start: int, end: int) -> list[int]:
    """How many fell into each of SLOTS equal lengths of time, of whole minutes."""
    length = -(-(end - start + 1) // SLOTS)
    slots = [0] * SLOTS
    for minute, count in minutes.items():
        slots[(int(minute) - start) // length] += int(count)
    return slots


def trend(slots: Sequence[int]) -> str:
    """Whether the last quarter of the time has more or fewer than its share; new ones rise."""
    last = len(slots) // 4
    recent, before = sum(slots[-last:]), sum(slots[:-last])
    expected = before / (len(slots) - last) * last
    if recent > 2 * expected + 1:
        return "rising"
    return "falling" if expected > 2 * recent + 1 else "steady"


def commands(cluster: dict[str, Any], among: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What redrives a cluster, a command per group; `also`: dead letters of other clusters it would take along."""
    if cluster["kind"] != "dead":
        return []
    text = max(PLACEHOLDER.split(cluster["error"]), key=len).strip()
    also = sum(
        other["count"]
        for other in among
        if other is not cluster
        and other["kind"] == "dead"
        and other["queue"] == cluster["queue"]
        and text in other["error"]
        and set(other["groups"]) & set(cluster["groups"])
    )
    return [
        {
            "group": group,
            "command": shlex.join(
                ["queen", "dlq", "redrive", "--queue", cluster["queue"], "--group", group]
                + (["--error", text] if text else [])
            ),
            "also": also,
        }
        for group in cluster["groups"]
    ]
