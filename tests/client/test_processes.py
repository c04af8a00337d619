from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import queen
from tests.server.running import run_broker
from tests.support.ports import free_port
from tests.support.tree import ROOT
from tests.support.wait import eventually

pytestmark = pytest.mark.chaos


@contextmanager
def worker(url: str, log: Path, seconds: float, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process, killed at the end if it still runs."""
    command = [sys.executable, "-m", "tests.client.worker", url, "orders", str(log), str(seconds), *more]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def events(log: Path) -> list[tuple[str, int, object]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def begun(log: Path) -> list[object]:
    return [value for event, _, value in events(log) if event == "begin"]


async def test_a_killed_worker_is_replaced_after_the_lease_and_order_is_kept(database: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with queen.connect(database) as q:
        await q.push_many("orders", range(6))
        with worker(database, log, 30) as first:
            await eventually(lambda: begun(log) == [0])
            first.send_signal(signal.SIGKILL)
        with worker(database, log, 0):
            await eventually(lambda: len(begun(log)) == 7)
        assert begun(log) == [0, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("more", [(), ("sync",)], ids=["asynchronous", "synchronous"])
async def test_sigterm_finishes_what_runs_and_hands_the_rest_to_another_at_once(
    database: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    async with queen.connect(database) as q:
        await q.push_many("orders", range(5))
        with worker(database, log, 0.8, *more) as first:
            await eventually(lambda: begun(log) == [0])
            waiting = asyncio.create_task(q.pop("orders", batch=9, wait=30))
            first.send_signal(signal.SIGTERM)
            await eventually(lambda: ("end", first.pid, 0) in events(log))
            finished = time.monotonic()
            rest = await waiting
            assert time.monotonic() - finished < 20, "long before the lease of 300 s would have ended"
            assert first.wait(20) == 0
        assert [message.data for message in rest] == [1, 2, 3, 4]
        assert events(log)[-1] == ("stopped", first.pid, 1)


async def test_the_signals_of_a_server_around_a_consumer_stay_the_servers(database: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with queen.connect(database) as q:
        await q.push("orders", 1)
        with worker(database, log, 0, "lifespan") as process:
            await eventually(lambda: begun(log) == [1])
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 30)
        assert events(log)[-1] == ("stopped", process.pid, 1)


async def test_a_broker_that_restarts_is_found_again_and_nothing_is_lost(database: str, tmp_path: Path) -> None:
    port = free_port()
    seen: list[int] = []

    async def note(message: queen.Message[int]) -> None:
        seen.append(message.data)

    async def produce(q: queen.Client) -> None:
        for number in range(60):
            await q.push("orders", number, partition=f"p{number % 4}")

    async with queen.connect(f"http://127.0.0.1:{port}", retry=queen.Retry(attempts=1000, cap=0.2)) as q:
        with serving(database, port, tmp_path):
            consuming = asyncio.create_task(
                q.consume("orders", note, prefetch=5, lease=2, concurrency=2, signals=False)
            )
            producing = asyncio.create_task(produce(q))
            await eventually(lambda: len(seen) >= 10, limit=60)
        with serving(database, port, tmp_path):
            await producing
            await eventually(lambda: set(seen) == set(range(60)), limit=60)
            q.stop()
            await asyncio.wait_for(consuming, 20)
            assert {one.name: one.depth for one in await q.queues.list()} == {"orders": 0}


@contextmanager
def serving(database: str, port: int, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A broker process, killed at the end."""
    command = [sys.executable, "-m", "queen", "serve", "--port", str(port), "--database-url", database]
    process = subprocess.Popen([*command, "--data-dir", str(directory), "--log-level", "error"], cwd=directory)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)


async def test_brokers_are_used_by_affinity_and_replaced_when_one_goes(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path / "a") as first:
        with run_broker(database, tmp_path / "b") as second:
            async with queen.connect([first.url, second.url]) as q:
                for number in range(20):
                    await q.push("orders", number, partition=f"p{number}")
                assert len(await q.pop("orders", batch=99, partitions=99)) == 20
        async with queen.connect(f"{second.url},{first.url}") as q:
            for number in range(20):
                await q.push("mails", number, partition=f"p{number}")
            assert len(await q.pop("mails", batch=99, partitions=99)) == 20
