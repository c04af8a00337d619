"""The Spark session of the worker, queues to archive, and a lake to archive them to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.support.lakes import Pond
from tests.spark.conftest import queues, spark
from tests.spark.support.queues import Queues

__all__ = ["queues", "spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As the connector's tests: one worker, and time enough."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def pond(spark: SparkSession, queues: Queues, tmp_path: Path) -> Pond:
    """A lake that does not exist yet, and a database of its own."""
    return Pond(spark, queues, tmp_path / "lake")
