"""One Spark session per worker, and queues to read from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen.spark import session
from tests.pipelines.support.buckets import ENVIRONMENT
from tests.spark.support.queues import Queues

KEY = "0123456789abcdef" * 4
SMALL = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.streaming.checkpointLocation": "",
}


def go_together(items: list[pytest.Item], folder: Path) -> None:
    """All tests with Spark go to one worker: two sessions at once would need twice the memory and time."""
    for item in items:
        if folder in item.path.parents and isinstance(item, pytest.Function):
            item.fixturenames.insert(0, "quick_java")
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    go_together(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def spark(quick_java: None) -> Iterator[SparkSession]:
    """The session that most tests share. Its workers know the key of encrypted queues; this process does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUEEN_ENCRYPTION_KEY", KEY)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        found = session("local[2]", app="queen-tests", settings={k: v for k, v in SMALL.items() if v})
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture
def queues(database: str) -> Iterator[Queues]:
    """A fresh database to push to."""
    with Queues(database) as found:
        yield found
