"""One buffer, several workers: the order of a partition is that in which its pushes were answered."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.server.producing import Producers, consume_all, require_all_once_in_order
from tests.server.running import Process, run_process
from tests.support.wait import wait_for

pytestmark = pytest.mark.chaos


def switch(broker: Process, *, on: bool) -> None:
    """Switch push maintenance; the other workers see it within a second."""
    httpx2.post(f"{broker.url}/api/v1/system/maintenance", json={"enabled": on}, timeout=30).raise_for_status()


def pending(broker: Process) -> int:
    found: int = httpx2.get(f"{broker.url}/api/v1/system/maintenance", timeout=30).json()["bufferedMessages"]
    return found


def worker_pids(broker: Process) -> list[int]:
    """The processes that serve."""
    found = []
    for child in psutil.Process(broker.pid).children():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found += [child.pid] if "multiprocessing.spawn" in " ".join(child.cmdline()) else []
    return found


def test_pushes_in_turn_to_two_workers_come_out_in_order(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path, QUEEN_WORKERS="2") as broker:
        switch(broker, on=True)
        for number in range(40):
            body = {"items": [{"queue": "mail", "payload": number}]}
            answer = httpx2.post(f"{broker.url}/api/v1/push", json=body, timeout=30)
            assert answer.status_code == 201
        switch(broker, on=False)
        wait_for(lambda: pending(broker) == 0, limit=60)
        found = consume_all(broker.url, "mail")
    assert found == {"Default": list(range(40))}


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_order_is_kept_when_workers_are_killed_while_they_buffer_and_drain(
    database: str, tmp_path: Path, workers: int
) -> None:
    chance = random.Random(workers)
    with run_process(database, tmp_path, QUEEN_WORKERS=str(workers)) as broker:
        switch(broker, on=True)
        with Producers(lambda _: broker.url, "orders", count=4, batch=5, reconnect=True) as producers:
            for turn in range(4):
                mark = producers.accepted + 40
                wait_for(lambda mark=mark: producers.accepted >= mark, limit=60)  # type: ignore[misc]
                if workers == 1:
                    broker.kill()
                    broker.start(ready=False)
                else:
                    psutil.Process(chance.choice(worker_pids(broker))).kill()
                wait_for(lambda: broker.answers("/health"), limit=60)
                switch(broker, on=turn == 1)
            wait_for(lambda: producers.statuses["queued"] > 0, limit=60)
        assert producers.statuses["buffered"] > 0
        wait_for(lambda: pending(broker) == 0, limit=60)
        found = consume_all(broker.url, "orders")
        assert broker.stop() == 0
    require_all_once_in_order(producers.all, found)
