"""compact: the small files of the lake into large ones, beside whoever writes."""

from __future__ import annotations

from functools import partial

from queen.spark.lake.compaction import compact as rewrite
from queen.spark.lake.tables import LAKE_TABLES
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.options import whole

MEGABYTE = 1 << 20


@pipeline(
    "compact",
    summary="Small files of the lake into large ones, beside whoever writes",
    reads=LAKE_TABLES,
    options={"file_megabytes": "128"},
    foreign=True,
)
def compact(context: Context) -> Outcome:
    """Rewrite what is smaller than half of a file."""
    target = whole(context.options, "file_megabytes") * MEGABYTE
    done = rewrite(context.spark, context.lake, partial(context.progress.step, "rewriting"), target=target)
    return Outcome(done.rows, {"files_before": done.before, "files_after": done.after})
