"""The same commands on a cluster of three processes give the same figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.support.lakes import Pond
from tests.spark.support.processes import Process
from tests.spark.test_cluster import Cluster

SMALL = ["--conf", "spark.executor.memory=600m", "--conf", "spark.driver.memory=800m"]
TIMED = ("pipeline", "run", "commit", "files", "swept")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def run(pond: Pond, lake: Path, log: Path, master: str, *names: str) -> list[dict[str, Any]]:
    """The figures of a command."""
    command = [sys.executable, "-m", "queen", "pipeline", "run", *names, "--once", "--master", master, *SMALL]
    command += ["--url", pond.queues.url, "--lake", str(lake), "-o", "json"]
    with Process(command, log, {"SPARK_LOCAL_IP": "127.0.0.1"}) as job:
        assert job.wait(300) == 0, log.read_text()[-3000:]
    shown = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [{name: value for name, value in each.items() if name not in TIMED} for each in shown]


@pytest.mark.timeout(600)
def test_a_cluster_gives_the_same_figures(pond: Pond, cluster: Cluster, tmp_path: Path) -> None:
    pond.queues.fill("orders", partitions=20, per_partition=200, at_once=1000)
    pond.queues.fill("payments", partitions=3, per_partition=100)
    here = run(pond, tmp_path / "here", tmp_path / "here.log", "local[2]", "archive", "reconcile")
    there = run(pond, tmp_path / "there", tmp_path / "there.log", cluster.url, "archive", "reconcile")
    assert here == there
    assert [figures["rows"] for figures in here] == [4300, 23]
    assert here[1]["differing"] == 0
