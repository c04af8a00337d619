"""Callers that hang up while they are answered: what did not leave for them is given back at once, whenever they go.

What the system has taken for a caller is out of our hands: it may have been read. That case is pinned too.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import psycopg
import pytest

from queen.model import Message, PopRequest
from queen.server.protocol import has_hung_up
from tests.server.calls import data, pop, push
from tests.server.running import Running, run_broker
from tests.server.wires import WAYS, ask, open_wire
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.wait import wait_for

LIMIT = 60.0
PLAIN = "/api/v1/pop/queue/{queue}?batch=3"
WAITING = "/api/v1/pop/queue/{queue}?batch=3&wait=true&timeout=30000"
each_way = pytest.mark.parametrize("way", list(WAYS))
each_pop = pytest.mark.parametrize("path", [PLAIN, WAITING], ids=["plain", "waiting"])


@pytest.fixture(scope="module")
def base(postgres: Postgres) -> Iterator[str]:
    with postgres.scratch(TEMPLATE) as database:
        yield database


@pytest.fixture(scope="module")
def broker(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with run_broker(base, tmp_path_factory.mktemp("vanished")) as running:
        yield running


@pytest.fixture
def caller(broker: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=broker.url, timeout=40) as client:
        yield client


def is_back(client: httpx2.Client, queue: str) -> bool:
    """Whether the messages can be had again."""
    return data(pop(client, queue, batch=3)) == [0, 1, 2]


@contextmanager
def standing_still(broker: Running) -> Iterator[None]:
    """The broker does nothing within the block: its event loop is held."""
    stands, go_on = threading.Event(), threading.Event()
    loop = broker.server.broker._loop
    assert loop is not None

    def hold() -> None:
        stands.set()
        go_on.wait(LIMIT)

    loop.call_soon_threadsafe(hold)
    assert stands.wait(LIMIT)
    try:
        yield
    finally:
        go_on.set()


def hang_up_unseen(broker: Running, said: bytes) -> None:
    """Say something and hang up before any of it is read; returns when it was read and nothing is under way."""
    with open_wire(broker.url) as wire:
        wire.say(ask("/health/live"))
        assert wire.status() == 200
        with standing_still(broker):
            wire.say(said)
            wire.close()
    wait_for(lambda: not held_open(broker) and not broker.server.server_state.tasks, limit=LIMIT)


def held_open(broker: Running) -> bool:
    """Whether a connection is there beside the one of the caller."""
    return len(broker.server.server_state.connections) > 1


@each_way
@each_pop
def test_gone_before_the_request_is_read(
    broker: Running, caller: httpx2.Client, queue: str, way: str, path: str
) -> None:
    push(caller, queue, 0, 1, 2)
    hang_up_unseen(broker, ask(path.format(queue=queue), way))
    wait_for(lambda: is_back(caller, queue), limit=LIMIT)


@each_way
@each_pop
def test_gone_while_the_database_works(
    broker: Running, base: str, caller: httpx2.Client, queue: str, way: str, path: str
) -> None:
    push(caller, queue, 0, 1, 2)
    with psycopg.connect(base) as other, psycopg.connect(base, autocommit=True) as looking:
        other.execute("lock table queen.partition_consumers in access exclusive mode")

        def waits() -> bool:
            found = looking.execute("select count(*) from pg_locks where not granted").fetchone()
            return found is not None and found[0] > 0

        with open_wire(broker.url) as wire:
            wire.say(ask(path.format(queue=queue), way))
            wait_for(waits, limit=LIMIT)
        other.rollback()
    wait_for(lambda: is_back(caller, queue), limit=LIMIT)


@each_way
@each_pop
def test_gone_between_the_result_and_the_answer(
    broker: Running, caller: httpx2.Client, queue: str, way: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop has had no chance to see that the caller is gone: only the system knows."""
    push(caller, queue, 0, 1, 2)
    found, closed = threading.Event(), threading.Event()
    engine = broker.server.broker.engine
    real = engine.pop

    async def slow(request: PopRequest) -> list[Message]:
        messages = await real(request)
        if messages and not found.is_set():
            found.set()
            closed.wait(LIMIT)
        return messages

    monkeypatch.setattr(engine, "pop", slow)
    with open_wire(broker.url) as wire:
        wire.say(ask(path.format(queue=queue), way))
        assert found.wait(LIMIT)
    closed.set()
    wait_for(lambda: is_back(caller, queue), limit=LIMIT)


@each_way
def test_gone_while_the_answer_is_written(broker: Running, caller: httpx2.Client, queue: str, way: str) -> None:
    """The answer is larger than what the system keeps for a caller that does not read."""
    large = ["x" * 4_000_000, 1, 2]
    push(caller, queue, *large)
    with open_wire(broker.url, unread=4096) as wire:
        wire.say(ask(PLAIN.format(queue=queue), way))
        assert wire.head().startswith(b"http/1.1 200")
    wait_for(lambda: data(pop(caller, queue, batch=3)) == large, limit=LIMIT)


@each_way
def test_a_slow_reader_of_a_large_answer_keeps_it(broker: Running, caller: httpx2.Client, queue: str, way: str) -> None:
    push(caller, queue, "x" * 4_000_000)
    with open_wire(broker.url, unread=4096) as wire:
        wire.say(ask(PLAIN.format(queue=queue), way))
        wire.body(wire.head())
        wire.say(ask("/health/live", way))
        assert wire.status() == 200
    assert pop(caller, queue) == []


@each_way
def test_behind_a_request_that_waits_its_turn(broker: Running, caller: httpx2.Client, queue: str, way: str) -> None:
    """With a second request behind it nothing more is read of the connection, not even that it ended."""
    push(caller, queue, 0, 1, 2)
    hang_up_unseen(broker, 2 * ask(PLAIN.format(queue=queue), way) + b"GET /")
    wait_for(lambda: is_back(caller, queue), limit=LIMIT)


def test_who_has_read_everything_keeps_it_however_it_hangs_up(
    broker: Running, caller: httpx2.Client, queue: str
) -> None:
    """A reset says nothing about what was read: proxies end connections so."""
    push(caller, queue, 0, 1, 2)
    with open_wire(broker.url) as wire:
        wire.say(ask(PLAIN.format(queue=queue)))
        head = wire.head()
        assert b'"messages":[{' in wire.body(head)
        wire.reset()
    wait_for(lambda: not held_open(broker), limit=LIMIT)
    assert pop(caller, queue) == []


def test_a_hang_up_is_seen_behind_bytes_that_nobody_has_read() -> None:
    """Over TLS there always are some: the caller says goodbye first."""
    one, two = socket.socketpair()
    with one:
        assert not has_hung_up(one.fileno())
        two.send(b"a last word")
        assert not has_hung_up(one.fileno())
        two.close()
        assert has_hung_up(one.fileno())
        assert one.recv(100) == b"a last word"
