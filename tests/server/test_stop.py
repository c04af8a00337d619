"""A graceful stop: parked polls are answered at once, what is under way is finished, leases go back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.server.running import Process, run_process
from tests.support.wait import wait_for


def parked(broker: Process, queue: str) -> float:
    text = httpx2.get(f"{broker.url}/metrics/prometheus").text
    lines = [line for line in text.splitlines() if line.startswith(f'queen_queue_parked_consumers{{queue="{queue}"}}')]
    return float(lines[0].split()[-1]) if lines else 0


def test_parked_polls_are_answered_at_once(database: str, tmp_path: Path) -> None:
    answers: list[tuple[int, float]] = []

    def wait() -> None:
        answer = httpx2.get(f"{broker.url}/api/v1/pop/queue/mail?wait=true&timeout=30000", timeout=40)
        answers.append((answer.status_code, time.monotonic()))

    with run_process(database, tmp_path) as broker:
        waiting = [threading.Thread(target=wait) for _ in range(20)]
        for thread in waiting:
            thread.start()
        wait_for(lambda: parked(broker, "mail") == 20)
        stopped = time.monotonic()
        assert broker.stop() == 0
        spent = time.monotonic() - stopped
        for thread in waiting:
            thread.join(5)
        assert [status for status, _ in answers] == [204] * 20
        assert spent < 5
        assert "stopped" in broker.log


def test_what_is_under_way_is_finished(database: str, tmp_path: Path) -> None:
    stop = threading.Event()
    accepted: list[int] = []
    statuses: list[int] = []

    def produce() -> None:
        with httpx2.Client(base_url=broker.url, timeout=20) as client:
            while not stop.is_set():
                body = {"items": [{"queue": "mail", "payload": len(accepted)}]}
                try:
                    statuses.append(client.post("/api/v1/push", json=body).status_code)
                except httpx2.HTTPError:
                    return
                accepted.extend([len(accepted)] * (statuses[-1] == 201))

    with run_process(database, tmp_path) as broker:
        producer = threading.Thread(target=produce)
        producer.start()
        wait_for(lambda: len(accepted) > 20)
        assert broker.stop() == 0
        stop.set()
        producer.join(20)
        broker.start()
        with httpx2.Client(base_url=broker.url, timeout=20) as client:
            found = client.get("/api/v1/pop/queue/mail?batch=10000&autoAck=true").json()["messages"]
    assert [message["data"] for message in found][: len(accepted)] == accepted
    assert set(statuses) <= {201, 503}
    assert len(found) <= len(accepted) + 1


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_log_is_json_and_tells_the_story(database: str, tmp_path: Path, workers: str) -> None:
    import json

    with run_process(database, tmp_path, QUEEN_WORKERS=workers) as broker:
        wait_for(lambda: broker.log.count('"listening"') == int(workers), limit=60)
        assert broker.stop() == 0
        events = [json.loads(line)["event"] for line in broker.log.splitlines()]
    for event in ("listening", "stopping", "stopped"):
        assert events.count(event) == int(workers)


def test_two_workers_share_the_port_and_are_replaced(database: str, tmp_path: Path) -> None:
    import psutil

    with run_process(database, tmp_path, QUEEN_WORKERS="2") as broker:
        pids = worker_pids(broker)
        assert len(pids) == 2
        victim = psutil.Process(pids.pop())
        victim.kill()
        wait_for(lambda: len(worker_pids(broker) - {victim.pid}) == 2, limit=30, pause=0.1)
        assert broker.stop() == 0
        assert not any(psutil.pid_exists(pid) for pid in pids)


def worker_pids(broker: Process) -> set[int]:
    """The processes that answer on the port; each connection may reach another one."""
    found: set[int] = set()
    for _ in range(30):
        try:
            found.add(httpx2.get(f"{broker.url}/health/live", timeout=5).json()["pid"])
        except httpx2.HTTPError:
            continue
    return found
