"""verify: every file of the lake against its log, and every partition against PostgreSQL."""

from __future__ import annotations

from dataclasses import asdict

from queen.spark.lake.tables import LAKE_TABLES
from queen.spark.lake.verify import verify as check
from queen.spark.pipelines.definition import Context, Outcome, pipeline
from queen.spark.pipelines.options import choice


@pipeline(
    "verify",
    summary="Every file of the lake against its log, and every partition against PostgreSQL",
    reads=LAKE_TABLES,
    options={"files_only": "false"},
)
def verify(context: Context) -> Outcome:
    """Check, and tell of what is not as it should be."""
    alone = choice(context.options, "files_only", ("true", "false")) == "true"
    context.progress.step("reading files", 0, 1)
    verdict = check(context.lake, None if alone else context.url, context.spark)
    wrong = [asdict(lane) for lane in verdict.lanes if not lane.agrees or lane.twice]
    context.write("partitions", wrong, key="partition_id")
    context.write("files", [{"file": text} for text in verdict.damaged], key="file")
    context.progress.step("reading files", 1, 1)
    figures = {
        "agrees": verdict.agrees, "files": verdict.files, "damaged": len(verdict.damaged),
        "partitions": verdict.partitions, "differing": verdict.differing,
    }  # fmt: skip
    return Outcome(verdict.rows, figures)
