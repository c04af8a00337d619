"""Two brokers on one database: both serve, all invariants hold, and each service tick is run once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.server.calls import ack_batch, pop
from tests.server.producing import Producers
from tests.server.running import Process, run_process
from tests.support.wait import eventually, wait_for

pytestmark = pytest.mark.chaos
FAST = {"QUEEN_RETENTION_INTERVAL": "0.5", "QUEEN_EVICTION_INTERVAL": "0.5", "QUEEN_STATS_INTERVAL": "0.5"}


class Consumer(threading.Thread):
    """Takes batches from the brokers in turn and writes down what it saw of each partition, in order."""

    def __init__(self, brokers: list[Process], seen: dict[str, list[Any]], lock: threading.Lock) -> None:
        super().__init__()
        self._brokers, self._seen, self._lock = brokers, seen, lock
        self.ended = threading.Event()
        self.served: Counter[str] = Counter()

    def run(self) -> None:
        turn = 0
        with httpx2.Client(timeout=30) as client:
            while not self.ended.is_set():
                broker = self._brokers[turn % len(self._brokers)]
                turn += 1
                client.base_url = httpx2.URL(broker.url)
                messages = pop(client, "orders", batch=20, partitions=3, wait=True, timeout=300, consumerGroup="g")
                with self._lock:
                    for message in messages:
                        self._seen.setdefault(message["partition"], []).append(message["data"])
                if messages:
                    assert all(result["success"] for result in ack_batch(client, messages, group="g"))
                    self.served[broker.url] += len(messages)


def mixed_load(database: str, directory: Path, seconds: float) -> None:
    seen: dict[str, list[Any]] = {}
    lock = threading.Lock()
    (directory / "a").mkdir()
    (directory / "b").mkdir()
    with run_process(database, directory / "a", **FAST) as one, run_process(database, directory / "b", **FAST) as two:
        brokers = [one, two]
        consumers = [Consumer(brokers, seen, lock) for _ in range(4)]
        with Producers(lambda turn: brokers[turn % 2].url, "orders", count=4, batch=5) as producers:
            for consumer in consumers:
                consumer.start()
            started = time.monotonic()
            wait_for(lambda: time.monotonic() - started > seconds, limit=seconds + 5, pause=0.1)
        wait_for(lambda: sum(map(len, seen.values())) >= producers.accepted, limit=30)
        for consumer in consumers:
            consumer.ended.set()
            consumer.join(20)
        for producer in producers.all:
            assert seen[producer.partition] == producer.accepted
            assert producer.statuses["duplicate"] == 0
        served = sum((consumer.served for consumer in consumers), Counter[str]())
        assert set(served) == {one.url, two.url}, "both brokers serve"


def test_both_serve_and_nothing_is_lost_or_doubled(database: str, tmp_path: Path) -> None:
    mixed_load(database, tmp_path, seconds=4)


@pytest.mark.scale
def test_both_serve_for_a_minute(database: str, tmp_path: Path) -> None:
    mixed_load(database, tmp_path, seconds=60)


async def test_each_tick_is_run_once_and_a_dead_holder_is_replaced(database: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    connection = await asyncpg.connect(database)
    with run_process(database, tmp_path / "a", **FAST) as one, run_process(database, tmp_path / "b", **FAST) as two:
        brokers = {one.pid: one, two.pid: two}

        async def holder() -> str:
            return str(await connection.fetchval("select holder from queen.service_leases where service = 'stats'"))

        first = await holder()
        victim = brokers[int(first.split(":")[1])]
        victim.kill()

        async def replaced() -> bool:
            return await holder() != first

        started = time.monotonic()
        await eventually(replaced, limit=10, pause=0.02)
        assert time.monotonic() - started < 4, "the other takes over within two intervals, and some time to notice"
        await eventually(lambda: _ticks(connection, "stats", 4), limit=20, pause=0.1)
    repeated = await connection.fetch(
        "select service, slot from queen.service_ticks group by service, slot having count(*) > 1"
    )
    holders = await connection.fetch("select distinct holder from queen.service_ticks where service = 'stats'")
    await connection.close()
    assert repeated == []
    assert len(holders) == 2


async def _ticks(connection: asyncpg.Connection[asyncpg.Record], service: str, count: int) -> bool:
    found = await connection.fetchval("select count(*) from queen.service_ticks where service = $1", service)
    return bool(found >= count)
