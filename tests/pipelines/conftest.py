"""The Spark session of the worker, queues to archive, and a lake to archive them to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.support.lakes import Pond
from tests.spark.conftest import go_together, queues, spark
from tests.spark.support.queues import Queues

__all__ = ["queues", "spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    go_together(items, Path(__file__).parent)


@pytest.fixture
def pond(spark: SparkSession, queues: Queues, tmp_path: Path) -> Pond:
    """A lake that does not exist yet, and a database of its own."""
    return Pond(spark, queues, tmp_path / "lake")
