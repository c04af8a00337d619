"""Two brokers on one database: both serve, all invariants hold, and each service tick is run once."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.server.calls import Json, ack_batch, pop
from tests.server.producing import Producers
from tests.server.running import Process, run_process
from tests.support.wait import eventually, wait_for

pytestmark = pytest.mark.chaos
INTERVAL = 1.0
FAST = {"QUEEN_RETENTION_INTERVAL": "0.5", "QUEEN_EVICTION_INTERVAL": "0.5", "QUEEN_STATS_INTERVAL": f"{INTERVAL}"}
# Whoever is given a tick changes the service's row: written down beside what the brokers themselves write down.
WITNESS = """
    create table witness (service text, slot bigint, holder text);
    create function witness() returns trigger language plpgsql as $$
    begin insert into witness values (new.service, new.slot, new.holder); return null; end $$;
    create trigger witness after insert or update of slot on queen.service_leases
        for each row execute function witness();
"""


async def watch_ticks(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(WITNESS)
    await connection.close()


async def require_each_tick_once(database: str) -> int:
    """Every tick that was given to a broker is written down with its slot, none was given twice; returns how many."""
    connection = await asyncpg.connect(database)
    given = [tuple(row) for row in await connection.fetch("select service, slot, holder from witness")]
    written = [tuple(row) for row in await connection.fetch("select service, slot, holder from queen.service_ticks")]
    await connection.close()
    twice = [tick for tick, times in Counter((service, slot) for service, slot, _ in given).items() if times > 1]
    assert twice == []
    assert sorted(written) == sorted(given)
    return len(given)


class Group:
    """A consumer group, and what it completed of each partition, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: dict[str, list[Any]] = {}
        self._lock = threading.Lock()

    def note(self, messages: list[Json]) -> None:
        """Messages whose lease is held are about to be completed: nobody else can have later ones yet."""
        with self._lock:
            for message in messages:
                self.done.setdefault(message["partition"], []).append(message["data"])

    @property
    def completed(self) -> int:
        """How many messages."""
        with self._lock:
            return sum(map(len, self.done.values()))


class Consumer(threading.Thread):
    """Takes batches from the brokers in turn; with `fails`, every third one is handed back as failed once."""

    def __init__(self, brokers: list[Process], group: Group, *, fails: bool = False) -> None:
        super().__init__()
        self._brokers, self._group, self._fails = brokers, group, fails
        self._failed: set[tuple[str, int]] = set()
        self.ended = threading.Event()
        self.served: Counter[str] = Counter()

    @property
    def failed(self) -> int:
        """How many batches were handed back."""
        return len(self._failed)

    def run(self) -> None:
        turn = 0
        name = self._group.name
        with httpx2.Client(timeout=30) as client:
            while not self.ended.is_set():
                broker = self._brokers[turn % len(self._brokers)]
                turn += 1
                client.base_url = httpx2.URL(broker.url)
                messages = pop(client, "orders", batch=20, partitions=3, wait=True, timeout=300, consumerGroup=name)
                self.served[broker.url] += len(messages)
                self._work(client, messages)

    def _work(self, client: httpx2.Client, messages: list[Json]) -> None:
        name = self._group.name
        if messages and self._fails:
            first = (messages[0]["partition"], messages[0]["data"])
            if first not in self._failed and first[1] % 3 == 0:
                self._failed.add(first)
                one = [message for message in messages if message["partition"] == first[0]]
                assert all(result["success"] for result in ack_batch(client, one, "failed", group=name))
                messages = messages[len(one) :]
        if messages:
            self._group.note(messages)
            assert all(result["success"] for result in ack_batch(client, messages, group=name))


def mixed_load(database: str, directory: Path, seconds: float) -> None:
    asyncio.run(watch_ticks(database))
    (directory / "a").mkdir()
    (directory / "b").mkdir()
    with run_process(database, directory / "a", **FAST) as one, run_process(database, directory / "b", **FAST) as two:
        brokers = [one, two]
        steady, failing = Group("steady"), Group("failing")
        consumers = [*(Consumer(brokers, steady) for _ in range(3)), Consumer(brokers, failing, fails=True)]
        with Producers(lambda turn: brokers[turn % 2].url, "orders", count=4, batch=5) as producers:
            for consumer in consumers:
                consumer.start()
            started = time.monotonic()
            wait_for(lambda: time.monotonic() - started > seconds, limit=seconds + 5, pause=0.1)
        wait_for(lambda: min(steady.completed, failing.completed) >= producers.accepted, limit=60)
        for consumer in consumers:
            consumer.ended.set()
            consumer.join(20)
        for producer in producers.all:
            assert producer.statuses["duplicate"] == 0
            assert steady.done[producer.partition] == producer.accepted
            assert failing.done[producer.partition] == producer.accepted
        served = sum((consumer.served for consumer in consumers), Counter[str]())
    ticks = asyncio.run(require_each_tick_once(database))
    failed = sum(consumer.failed for consumer in consumers)
    sys.stdout.write(
        f"two brokers, {seconds:g} s: {producers.accepted / seconds:,.0f} accepted messages/s to two groups, "
        f"{failed} batches failed once, {ticks} service ticks, served {sorted(served.values())}\n"
    )
    assert set(served) == {one.url, two.url}, "both brokers serve"
    assert failed > 0


def test_both_serve_and_nothing_is_lost_or_doubled(database: str, tmp_path: Path) -> None:
    mixed_load(database, tmp_path, seconds=4)


@pytest.mark.scale
def test_both_serve_for_a_minute(database: str, tmp_path: Path) -> None:
    mixed_load(database, tmp_path, seconds=60)


async def test_each_tick_is_run_once_and_a_dead_holder_is_replaced(database: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    await watch_ticks(database)
    connection = await asyncpg.connect(database)
    with run_process(database, tmp_path / "a", **FAST) as one, run_process(database, tmp_path / "b", **FAST) as two:
        brokers = {one.pid: one, two.pid: two}

        async def holder() -> str:
            return str(await connection.fetchval("select holder from queen.service_leases where service = 'stats'"))

        await eventually(lambda: _ticked(connection, "stats", 3), limit=20, pause=0.05)
        first = await holder()
        brokers[int(first.split(":")[1])].kill()
        killed = time.monotonic()

        async def replaced() -> bool:
            return await holder() != first

        await eventually(replaced, limit=10, pause=0.02)
        spent = time.monotonic() - killed
        second = await holder()
        await eventually(lambda: _ticked(connection, "stats", 3, second), limit=20, pause=0.1)
    old = await connection.fetchval(
        "select max(slot) from queen.service_ticks where service = 'stats' and holder = $1", first
    )
    new = await connection.fetchval(
        "select min(slot) from queen.service_ticks where service = 'stats' and holder = $1", second
    )
    await connection.close()
    sys.stdout.write(f"a killed holder was replaced after {spent / INTERVAL:.2f} intervals, {new - old} slots later\n")
    assert new - old <= 2
    assert spent < 2 * INTERVAL + 0.5, "two intervals, and half a second for a loaded machine"
    await require_each_tick_once(database)


async def _ticked(
    connection: asyncpg.Connection[asyncpg.Record], service: str, count: int, holder: str | None = None
) -> bool:
    found = await connection.fetchval(
        "select count(*) from queen.service_ticks where service = $1 and ($2::text is null or holder = $2)",
        service,
        holder,
    )
    return bool(found >= count)
