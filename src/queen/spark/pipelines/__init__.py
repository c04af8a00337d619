"""Pipelines over the lake: `queen pipeline run NAME`, and `@queen.pipeline` for your own."""

from __future__ import annotations

from queen.spark.pipelines.definition import Context, Outcome, Period, Pipeline, Progress, pipeline

__all__ = ["Context", "Outcome", "Period", "Pipeline", "Progress", "pipeline"]
