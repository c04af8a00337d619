"""The broker is killed, the database goes away: nothing accepted is lost, nothing is stored twice, order is kept."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from queen.db.embedded import EmbeddedServer
from queen.engine import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage
from queen.server.buffer import Buffer
from tests.server.calls import data, pop, push
from tests.server.producing import Producers, consume_all, require_all_once_in_order
from tests.server.running import Process, Running, run_process
from tests.support.wait import eventually, wait_for

pytestmark = pytest.mark.chaos


def kill_under_load(database: str, directory: Path, kills: int, between: int) -> float:
    """Kill and restart the broker while producers push; returns how many messages a second were accepted."""
    chance = random.Random(kills)
    with run_process(database, directory) as broker:
        started = time.monotonic()
        with Producers(lambda _: broker.url, "orders", count=6) as producers:
            for _ in range(kills):
                mark = producers.accepted + between + chance.randrange(between)
                wait_for(lambda mark=mark: producers.accepted >= mark, limit=60)  # type: ignore[misc]
                broker.kill()
                broker.start()
        rate = producers.accepted / (time.monotonic() - started)
        found = consume_all(broker.url, "orders")
    repeated = sum(producer.repeated for producer in producers.all)
    sys.stdout.write(
        f"{kills} kills: {producers.accepted:,} accepted, {rate:,.0f} a second with the time to start again; "
        f"{repeated} pushes repeated, {producers.statuses['duplicate']} messages recognised\n"
    )
    require_all_once_in_order(producers.all, found)
    assert repeated > 0, "no push was under way when it was killed"
    return rate


def test_a_killed_broker_loses_nothing(database: str, tmp_path: Path) -> None:
    kill_under_load(database, tmp_path, kills=2, between=200)


@pytest.mark.scale
def test_a_broker_killed_again_and_again_loses_nothing(database: str, tmp_path: Path) -> None:
    assert kill_under_load(database, tmp_path, kills=8, between=20_000) >= 1000


def test_a_broker_killed_while_it_buffers_loses_nothing(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path) as broker:
        httpx2.post(f"{broker.url}/api/v1/system/maintenance", json={"enabled": True})
        with Producers(lambda _: broker.url, "orders", count=4) as producers:
            for _ in range(2):
                mark = producers.accepted + 150
                wait_for(lambda mark=mark: producers.accepted >= mark, limit=60)  # type: ignore[misc]
                broker.kill()
                broker.start()
            httpx2.post(f"{broker.url}/api/v1/system/maintenance", json={"enabled": False})
            wait_for(lambda: producers.statuses["queued"] > 0, limit=60)
        assert producers.statuses["buffered"] > 0
        wait_for(lambda: buffered(broker) == 0, limit=30)
        found = consume_all(broker.url, "orders")
    require_all_once_in_order(producers.all, found)


async def test_what_a_dead_process_left_behind_is_stored_by_one_that_lives(
    broker: Running, client: httpx2.Client
) -> None:
    left = Buffer(broker.settings.buffer_path, KeyRing(), never)
    await left.append([NewMessage(queue="mail", payload='"left behind"', id=uuid7())])
    await left.close()
    await eventually(lambda: data(pop(client, "mail")) == ["left behind"])


async def never(_: Sequence[NewMessage]) -> None:
    raise AssertionError


def buffered(broker: Process) -> int:
    count: int = httpx2.get(f"{broker.url}/api/v1/system/maintenance").json()["bufferedMessages"]
    return count


def stop_database_under_load(scratch: Path, seconds: float, before: int) -> float:
    """Take the database away under load; returns how many messages a second were accepted without it."""
    server = EmbeddedServer.start(scratch / "data")
    with (
        run_process(server.dsn(), scratch) as broker,
        Producers(lambda _: broker.url, "orders", count=6) as producers,
    ):
        wait_for(lambda: producers.accepted >= before, limit=60)
        server.stop("immediate")
        away, known = time.monotonic(), producers.accepted
        wait_for(lambda: producers.statuses["buffered"] >= before, limit=60)
        wait_for(lambda: time.monotonic() - away >= seconds, limit=seconds + 5)
        rate = (producers.accepted - known) / (time.monotonic() - away)
        sys.stdout.write(f"{rate:,.0f} accepted messages/s while the database is away\n")
        assert httpx2.get(f"{broker.url}/health").status_code == 503
        assert httpx2.get(f"{broker.url}/health/live").status_code == 200
        pop_answer = httpx2.get(f"{broker.url}/api/v1/pop/queue/orders", timeout=20)
        assert (pop_answer.status_code, pop_answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
        with EmbeddedServer.start(scratch / "data"):
            queued = producers.statuses["queued"]
            wait_for(lambda: producers.statuses["queued"] > queued + before, limit=60)
            producers.finish()
            wait_for(lambda: buffered(broker) == 0, limit=60)
            found = consume_all(broker.url, "orders")
            broker.stop()
    require_all_once_in_order(producers.all, found)
    return rate


def test_pushes_during_an_outage_are_buffered_and_arrive(scratch: Path) -> None:
    stop_database_under_load(scratch, seconds=1, before=300)


@pytest.mark.scale
def test_pushes_during_a_long_outage_are_buffered_and_arrive(scratch: Path) -> None:
    assert stop_database_under_load(scratch, seconds=20, before=10_000) >= 1000


def test_a_broker_starts_without_its_database(scratch: Path) -> None:
    server = EmbeddedServer.start(scratch / "data")
    address = server.dsn()
    server.stop()
    broker = Process(address, scratch)
    broker.start(ready=False)
    try:
        with httpx2.Client(base_url=broker.url, timeout=30) as client:
            assert push(client, "mail", 1, 2)[0]["status"] == "buffered"
            assert client.get("/health/ready").status_code == 503
            with EmbeddedServer.start(scratch / "data"):
                wait_for(lambda: broker.answers("/health/ready"), limit=60, pause=0.1)
                assert data(pop(client, "mail", batch=2, wait=True, timeout=20_000)) == [1, 2]
                assert broker.stop() == 0
    finally:
        broker.kill()
