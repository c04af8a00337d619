"""How long a connection lives: idle ones end after a while and when the broker stops, those in use do not."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from queen.server.app import App, Headers
from queen.server.protocol import Protocol
from queen.server.request import Request
from queen.server.wire import Response
from tests.server.running import Running, run_broker, run_process
from tests.server.wires import WAYS, ask, open_wire
from tests.support.wait import eventually, wait_for

LIVE = "/health/live"
PARKED = "/api/v1/pop/queue/quiet?wait=true&timeout="
UPGRADE = (
    b"connection: upgrade",
    b"upgrade: websocket",
    b"sec-websocket-version: 13",
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
)
IDLE = 0.5
either_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def impatient(database: str, tmp_path: Path) -> Iterator[Running]:
    """A broker that ends idle connections soon."""
    with run_broker(database, tmp_path) as running:
        running.server.config.timeout_keep_alive = IDLE  # type: ignore[assignment]
        yield running


@either_way
def test_an_idle_connection_is_closed_in_time(impatient: Running, way: str) -> None:
    with open_wire(impatient.url) as wire:
        wire.say(ask(LIVE, way))
        assert wire.status() == 200
        answered = time.monotonic()
        assert wire.end() == b""
        assert IDLE * 0.9 < time.monotonic() - answered < IDLE + 5


@either_way
def test_a_connection_in_use_lives_on(impatient: Running, way: str) -> None:
    """Also one whose request takes longer than that: the time begins with its answer."""
    with open_wire(impatient.url) as wire:
        started = time.monotonic()
        while time.monotonic() - started < IDLE * 2.5:
            wire.say(ask(LIVE, way))
            assert wire.status() == 200
        wire.say(ask(f"{PARKED}{IDLE * 2500:.0f}", way))
        assert wire.status() == 204
        answered = time.monotonic()
        assert wire.end() == b""
        assert IDLE * 0.9 < time.monotonic() - answered < IDLE + 5


def test_a_head_that_comes_slowly_is_not_idle(impatient: Running) -> None:
    with open_wire(impatient.url) as wire:
        wire.say(ask(LIVE))
        assert wire.status() == 200
        wire.say(ask(LIVE)[:20])
        (connection,) = impatient.server.server_state.connections
        assert isinstance(connection, Protocol)
        wait_for(lambda: connection._held)
        for _ in range(2):
            timer = connection._idle
            wait_for(lambda before=timer: connection._idle is not before)  # type: ignore[misc]
        assert connection in impatient.server.server_state.connections
        wire.say(ask(LIVE)[20:])
        assert wire.status() == 200


def test_a_closed_connection_leaves_no_timer(broker: Running) -> None:
    with open_wire(broker.url) as wire:
        wire.say(ask(LIVE))
        assert wire.status() == 200
        (connection,) = broker.server.server_state.connections
        assert isinstance(connection, Protocol)
        wait_for(lambda: connection._idle)
        timer = connection._idle
        assert timer is not None
        assert not timer.cancelled()
    wait_for(timer.cancelled)


def test_a_websocket_may_be_quiet(impatient: Running) -> None:
    with open_wire(impatient.url) as wire:
        wire.say(ask(LIVE))
        assert wire.status() == 200
        (connection,) = impatient.server.server_state.connections
        assert isinstance(connection, Protocol)
        timer = connection._idle
        wire.say(ask("/ws/dashboard", "short", *UPGRADE))
        assert wire.head().startswith(b"http/1.1 101")
        assert timer is not None
        wait_for(timer.cancelled)
        assert connection._idle is timer
        assert impatient.server.server_state.connections


@either_way
def test_a_stop_answers_who_waits_and_closes_what_is_idle(database: str, tmp_path: Path, way: str) -> None:
    with run_process(database, tmp_path) as broker, open_wire(broker.url) as idle, open_wire(broker.url) as waiting:
        idle.say(ask(LIVE, way))
        assert idle.status() == 200
        waiting.say(ask(f"{PARKED}30000", way))
        wait_for(lambda: b'queue="quiet"} 1' in parked(broker.url), pause=0.1)
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < 5
        assert idle.end() == b""
        head = waiting.head()
        assert head.startswith(b"http/1.1 204")
        assert head.count(b"connection: close") == 1
        assert waiting.end() == b""


def test_a_stop_does_not_wait_without_end(database: str, tmp_path: Path) -> None:
    """Whoever is still being served after the limit is cut off."""
    with run_broker(database, tmp_path, shutdown_limit=0) as running:
        running.server.config.loaded_app = Slow(running.server.broker)
        with open_wire(running.url) as wire:
            wire.say(ask(LIVE))
            wait_for(lambda: running.server.server_state.tasks)
            running.server.should_exit = True
            assert wire.end() == b""


def test_an_answer_for_somebody_who_left_is_dropped(broker: Running, caplog: pytest.LogCaptureFixture) -> None:
    server = broker.server
    server.config.loaded_app = slow = Slow(server.broker)
    with open_wire(broker.url) as wire:
        wire.say(ask(LIVE))
        wait_for(lambda: server.server_state.tasks)
    wait_for(lambda: not server.server_state.connections)
    slow.may_answer = True
    wait_for(lambda: not server.server_state.tasks)
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


class Slow(App):
    """An application that answers when it is told to."""

    may_answer = False

    async def respond(self, request: Request) -> tuple[Response, Headers]:
        await eventually(lambda: self.may_answer)
        return await super().respond(request)


def parked(url: str) -> bytes:
    """The lines about who waits."""
    with open_wire(url) as wire:
        wire.say(ask("/metrics/prometheus"))
        lines = wire.body(wire.head()).splitlines()
    return b"\n".join(line.removesuffix(b".0") for line in lines if line.startswith(b"queen_queue_parked_consumers{"))
