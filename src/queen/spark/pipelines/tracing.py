"""Which traces have to be gone through again, and where their messages are."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from queen.spark.pipelines.changes import LATER, SETTLED, Reading, is_new, new_files
from queen.spark.pipelines.journeys import LANE
from queen.spark.pipelines.memory import EVERYTHING, Memory, Seen


def days_with_news(reading: Reading, seen: Seen, memory: Memory) -> set[str] | None:
    """The days on which traces began of which anything is new; None when it may be any.

    A new group may have handled every message of its queue. Of older files only two columns are read here.
    """
    state = reading.state
    mark = seen.reaches.get("messages", 0)
    before = {file.group for file in state.of("messages") if file.low < mark}
    if any(day == EVERYTHING and queue in before for queue, day in reading.first.items()):
        return None
    fresh = reading.frame("messages", new_files(state, seen, "messages")).where(F.col("pos") >= mark)
    handled = reading.frame("messages").join(touched(reading, seen), ["partition_id", "seq"], "left_semi")
    ids = fresh.select("trace_id").union(handled.select("trace_id")).where("trace_id is not null").distinct()
    every = reading.frame("messages", state.of("messages")).select("trace_id", "created_at")
    started = every.join(ids, "trace_id", "left_semi").groupBy("trace_id").agg(F.min("created_at").alias("started"))
    days = {row.day.isoformat() for row in started.select(F.to_date("started").alias("day")).distinct().collect()}
    return days | made_whole(reading, memory, fresh)


def touched(reading: Reading, seen: Seen) -> DataFrame:
    """The messages that new batches and dead letters tell something about: partition_id and seq."""
    state = reading.state
    files = {file.path: file for file in new_files(state, seen, "deliveries")}
    files |= {f.path: f for f in state.of("deliveries") if f.date >= seen.unsettled.get(f.group or "", LATER)}
    lane = Window.partitionBy(*LANE).orderBy("leased_at", "ended_at", "batch_from")
    told = reading.frame("deliveries", list(files.values())).withColumn("new", is_new("ended_at", seen, "deliveries"))
    names = ("new", "outcome", "batch_from", "batch_to")
    last = [F.lag(name).over(lane).alias(f"last_{name}") for name in names]
    new = told.select("partition_id", "new", "batch_from", "batch_to", *last).where("new")
    settled = new.where(~F.col("last_new") & ~F.col("last_outcome").isin(*SETTLED))
    ranges = new.select("partition_id", "batch_from", "batch_to").union(
        settled.select("partition_id", "last_batch_from", "last_batch_to")
    )
    single = ranges.where("batch_to >= batch_from").select(
        "partition_id", F.explode(F.sequence("batch_from", "batch_to")).alias("seq")
    )
    letters = reading.frame("dead_letters", new_files(state, seen, "dead_letters"))
    died = letters.where(is_new("failed_at", seen, "dead_letters")).select("partition_id", "seq")
    return single.union(died).distinct()


def made_whole(reading: Reading, memory: Memory, fresh: DataFrame) -> set[str]:
    """The days of broken traces a parent of which has come since."""
    broken = {parent: row["day"] for row in memory.days("broken") for parent in row["trace"]["missing"]}
    if not broken:
        return set()
    wanted = reading.context.spark.createDataFrame([(parent,) for parent in broken], "id string")
    return {broken[row.id] for row in fresh.select("id").join(F.broadcast(wanted), "id").collect()}


def traces_of(reading: Reading, days: set[str]) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
    """The messages of all traces that began on some days, what may have happened to them, and the parents there are."""
    first = min(days, default=LATER)
    tables = {
        table: [file for file in reading.state.of(table) if file.date >= first]
        for table in ("messages", "deliveries", "dead_letters")
    }
    messages = reading.frame("messages", tables["messages"])
    older = reading.frame("messages", [file for file in reading.state.of("messages") if file.date < first])
    traced = messages.where("trace_id is not null")
    began = traced.groupBy("trace_id").agg(F.to_date(F.min("created_at")).cast("string").alias("day"))
    candidates = began.where(F.col("day").isin(*days)).select("trace_id")
    earlier = older.select("trace_id").join(candidates, "trace_id", "left_semi").distinct()
    chosen = reading.hold(traced.join(candidates.join(earlier, "trace_id", "left_anti"), "trace_id", "left_semi"))
    named = chosen.select(F.col("parent_id").alias("id")).where("id is not null").distinct()
    here = messages.select("id").join(named, "id", "left_semi")
    there = older.select("id").join(named.join(here, "id", "left_anti"), "id", "left_semi")
    ids = reduce(DataFrame.union, (here, there)).distinct()
    return (
        chosen,
        reading.frame("deliveries", tables["deliveries"]),
        reading.frame("dead_letters", tables["dead_letters"]),
        ids,
    )
