"""vacuum: files away that no longer count, or never did."""

from __future__ import annotations

from functools import partial

from queen.spark.lake.compaction import vacuum as remove
from queen.spark.lake.lake import KEEP_HOURS
from queen.spark.lake.tables import LAKE_TABLES
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.options import whole


@pipeline(
    "vacuum",
    summary="Files of the lake away that have not counted for a day",
    reads=LAKE_TABLES,
    options={"hours": str(KEEP_HOURS)},
    foreign=True,
)
def vacuum(context: Context) -> Outcome:
    """Remove them. Readers and writers that take longer than `hours` would miss theirs."""
    hours = whole(context.options, "hours", least=0)
    removed = remove(context.spark, context.lake, partial(context.progress.step, "removing"), hours=hours)
    return Outcome(removed, {"files_removed": removed})
