"""A standalone cluster on loopback: a master, two workers, and one of them killed in the middle of a write."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from queen.spark.session import environment
from tests.spark.drivers import relay
from tests.spark.support.processes import Process, python
from tests.spark.support.queues import Queues
from tests.support.wait import wait_for

SPARK_CLASS = Path(sys.executable).parent / "spark-class"
SMALL = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    "SPARK_NO_DAEMONIZE": "1",
}


class Cluster:
    """One master and two workers of one core each."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        given = environment("local", os.environ) | SMALL
        master: list[str | Path] = [SPARK_CLASS, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        log = folder / "master.log"
        stack.enter_context(Process([*master, "--port", "0", "--webui-port", "0"], log, given))
        wait_for(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), limit=200)
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        assert found
        self.url = found[1]
        worker: list[str | Path] = [SPARK_CLASS, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
        options = ["--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir"]
        self.workers = [
            stack.enter_context(Process([*worker, *options, folder / name, self.url], folder / f"{name}.log", given))
            for name in ("one", "two")
        ]
        wait_for(lambda: log.read_text().count("Registering worker") == 2, limit=200)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def kill_worker(worker: Process) -> None:
    """The worker and its executor, at once."""
    family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
    for member in family:
        os.kill(member.pid, signal.SIGKILL)


def staging(queues: Queues) -> bool:
    """Whether a task is copying rows into a stage right now."""
    return bool(
        queues.rows("select from pg_stat_activity where query ilike 'copy%%spark_stage%%' and state = 'active'")
    )


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_worker_killed_in_the_middle_of_a_write_changes_nothing(
    cluster: Cluster, queues: Queues, tmp_path: Path
) -> None:
    queues.fill("in", partitions=100, per_partition=200)
    command = python(Path(relay.__file__), queues.url, tmp_path, cluster.url)
    with Process(command, tmp_path / "log", {"SPARK_LOCAL_IP": "127.0.0.1"}) as driver:
        wait_for(lambda: queues.rows("select from queen.sink_batches") or not driver.running, limit=400, pause=0.05)
        wait_for(lambda: staging(queues) or not driver.running, limit=200, pause=0.002)
        assert driver.running, (tmp_path / "log").read_text()[-3000:]
        kill_worker(cluster.workers[0])
        assert driver.wait(500) == 0, (tmp_path / "log").read_text()[-3000:]
    expected = {f"p{p}": [{"p": p, "n": 2 * n} for n in range(200)] for p in range(100)}
    assert queues.contents("out") == expected
