"""Queue to stream to queue, whatever dies on the way: exactly once and in order."""

from __future__ import annotations

import random
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.spark.drivers import relay
from tests.spark.support.processes import Process, python
from tests.spark.support.queues import Queues
from tests.support.wait import wait_for

DRIVER = Path(relay.__file__)


def batches_stored(queues: Queues) -> int:
    found: int = queues.value("select count(distinct batch) from queen.sink_batches")
    return found


def come_to(queues: Queues, batches: int, driver: Process) -> bool:
    return batches_stored(queues) >= batches or not driver.running


def relay_with_kills(queues: Queues, directory: Path, partitions: int, each: int, *, rows: int, kills: int) -> None:
    queues.fill("in", partitions, each)
    chance = random.Random(each)
    log = directory / "log"
    command = python(DRIVER, queues.url, directory, "local[2,3]", str(rows))
    for _ in range(kills):
        before = batches_stored(queues)
        enough = before + chance.randint(1, 2)
        with Process(command, log) as driver:
            wait_for(partial(come_to, queues, enough, driver), limit=400, pause=0.05)
            assert driver.running, log.read_text()[-3000:]
            with pytest.raises(subprocess.TimeoutExpired):
                driver.wait(chance.random() * 0.8)
    (directory / "fail-commit").touch()
    with Process(command, log) as driver:
        assert driver.wait(1000) == 0, log.read_text()[-3000:]
    assert re.search("told to fail after storing.*begun again", log.read_text(), re.DOTALL)
    assert "told to fail after staging" in log.read_text()


def require_exact(queues: Queues, partitions: int, each: int) -> None:
    expected = {f"p{p}": [{"p": p, "n": 2 * n} for n in range(each)] for p in range(partitions)}
    assert queues.contents("out") == expected
    assert queues.value("select count(*) from queen.messages") == 2 * partitions * each


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_a_relay_killed_twice_delivers_everything_once_in_order(queues: Queues, tmp_path: Path) -> None:
    relay_with_kills(queues, tmp_path, 100, 60, rows=600, kills=2)
    require_exact(queues, 100, 60)


@pytest.mark.scale
@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_large_relay_killed_three_times_delivers_everything_once_in_order(queues: Queues, tmp_path: Path) -> None:
    relay_with_kills(queues, tmp_path, 500, 400, rows=4000, kills=3)
    require_exact(queues, 500, 400)
