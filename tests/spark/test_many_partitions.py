"""The cost of a batch does not grow with the number of partitions."""

from __future__ import annotations

import json
import statistics
import time

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues

ROUNDS = 30


def seconds_to_plan(follower: ByHorizon) -> float:
    """How long it takes to plan a batch, always from the same start."""
    began = time.perf_counter()
    end = follower.reader.latestOffset(follower.offset, ReadMaxRows(follower.batch))
    parts = follower.reader.partitions(follower.offset, end)
    spent = time.perf_counter() - began
    assert parts
    assert end["pos"] > follower.offset["pos"]
    return spent


def compare(queues: Queues, partitions: int) -> None:
    queues.fill("few", partitions=100, per_partition=20)
    queues.fill("many", partitions=partitions, per_partition=1)
    queues.connection.execute("vacuum analyze queen.messages, queen.partitions")
    with ByHorizon(queues, "few", 1000) as few, ByHorizon(queues, "many", 1000) as many:
        rounds = [(seconds_to_plan(few), seconds_to_plan(many)) for _ in range(ROUNDS)]
        many.step()
    of_few, of_many = (statistics.median(times) for times in zip(*rounds, strict=True))
    assert len(json.dumps(many.offset)) < 1000
    assert len(many.seen) == 1000
    assert of_many <= 2 * of_few, f"{of_many * 1000:.1f} ms against {of_few * 1000:.1f} ms"


@pytest.mark.measure
def test_planning_costs_the_same_for_thousands_of_partitions(queues: Queues) -> None:
    compare(queues, 5_000)


@pytest.mark.scale
@pytest.mark.timeout(900)
def test_planning_costs_the_same_for_a_hundred_thousand_partitions(queues: Queues) -> None:
    compare(queues, 100_000)
