"""A crowd of idle connections, half-sent heads and slow readers: others hardly notice, and memory stays bounded."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tests.server.calls import ack_batch, data, pop, push
from tests.server.running import Process, Running, run_broker, run_process
from tests.server.wires import WAYS, ask, open_wire
from tests.support.tree import ROOT
from tests.support.wait import wait_for

LARGE = 1_000_000
# What a connection may cost the broker while it says nothing, and what an answer may that is not read.
PER_CONNECTION, PER_ANSWER = 20_000, 3 * LARGE


@contextmanager
def crowd(broker: Process, idle: int, half: int, slow: int) -> Iterator[None]:
    """The crowd is there within the block."""
    parts = urlsplit(broker.url)
    numbers = [str(number) for number in (idle, half, slow)]
    command = [sys.executable, "-m", "tests.server.crowd", str(parts.hostname), str(parts.port), *numbers, "large"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.stdin.close()
        sys.stdout.write(f"the crowd saw {process.stdout.read()}")
        assert process.wait(60) == 0


def work(client: httpx2.Client, seconds: float) -> list[float]:
    """Push, pop and acknowledge for some seconds; how long each request took."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number in range(20):
            began = time.perf_counter()
            push(client, "mail", number)
            pushed = time.perf_counter()
            messages = pop(client, "mail")
            popped = time.perf_counter()
            assert data(messages) == [number]
            ack_batch(client, messages)
            times += [pushed - began, popped - pushed, time.perf_counter() - popped]
    return times


def percentile(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1]


def beside(database: str, tmp_path: Path, idle: int, half: int, slow: int, seconds: float) -> float:
    """The others' p99 with the crowd, relative to that without; the rest is asserted and printed."""
    with run_process(database, tmp_path) as broker, httpx2.Client(base_url=broker.url, timeout=60) as client:
        push(client, "large", "x" * LARGE)
        process = psutil.Process(broker.pid)
        work(client, seconds / 10)
        alone, memory = work(client, seconds / 2), process.memory_info().rss
        with crowd(broker, idle, half, slow):
            crowded = work(client, seconds)
            grown = process.memory_info().rss - memory
            connections = len(process.net_connections("tcp"))
        after = work(client, seconds / 4)
    ratio = percentile(crowded, 99) / max(percentile(alone, 99), percentile(after, 99))
    sys.stdout.write(
        f"{idle:,} idle, {half:,} half heads, {slow} slow readers for {seconds:g} s: the others' p99 "
        f"{percentile(alone, 99) * 1000:.1f} ms alone, {percentile(crowded, 99) * 1000:.1f} beside them, "
        f"{percentile(after, 99) * 1000:.1f} after ({ratio:.2f} times), p50 {percentile(alone, 50) * 1000:.1f} and "
        f"{percentile(crowded, 50) * 1000:.1f}; the broker grew by {grown / 2**20:.0f} MiB\n"
    )
    assert connections > idle + slow, "half heads are answered and come again, so that some are just on their way"
    assert grown < (idle + half) * PER_CONNECTION + slow * PER_ANSWER + 50 * 2**20
    return ratio


def test_a_crowd_stops_nobody(database: str, tmp_path: Path) -> None:
    beside(database, tmp_path, idle=300, half=100, slow=10, seconds=2)


@pytest.mark.scale
@pytest.mark.timeout(600)
@pytest.mark.measure
def test_a_large_crowd_is_hardly_noticed(database: str, tmp_path: Path) -> None:
    assert beside(database, tmp_path, idle=10_000, half=1000, slow=200, seconds=60) <= 2


@pytest.mark.parametrize("way", list(WAYS))
def test_who_does_not_read_its_answer_is_hung_up_on(database: str, tmp_path: Path, way: str) -> None:
    """What it did not get goes back, and its memory too."""
    limits = {"answer_timeout": 1.0, "head_timeout": 0.3}
    with (
        run_broker(database, tmp_path, **limits) as broker,
        httpx2.Client(base_url=broker.url, timeout=40) as client,
    ):
        push(client, "large", "x" * 8_000_000)
        with open_wire(broker.url, unread=4096) as wire:
            wire.say(ask("/api/v1/pop/queue/large", way))
            assert wire.head().startswith(b"http/1.1 200")
            wait_for(lambda: len(pop(client, "large")) == 1, limit=60)
            wait_for(lambda: connections(broker) == 1, limit=60)


def connections(broker: Running) -> int:
    return len(broker.server.server_state.connections)
