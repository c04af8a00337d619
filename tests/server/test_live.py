from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.server.calls import ack, pop, push
from tests.server.running import Running, run_broker
from tests.support.wait import eventually

SECRET = "s" * 32
Json = dict[str, Any]


def watch(broker: Running, query: str = "") -> connect:
    return connect(f"{broker.url.replace('http', 'ws')}/ws/dashboard{query}", proxy=None, open_timeout=10)


async def event(connection: ClientConnection) -> Json:
    found: Json = json.loads(await asyncio.wait_for(connection.recv(), 20))
    return found


async def until(connection: ClientConnection, wanted: str) -> Json:
    """The first event whose field `wanted` has something in it."""
    while not (found := await event(connection))[wanted]:
        pass
    return found


async def drained(connection: ClientConnection) -> None:
    while True:
        await connection.recv()


def queues(event: Json) -> Json:
    return {queue["name"]: queue for queue in event["queues"]}


async def test_a_snapshot_first_then_what_changes(broker: Running, client: httpx2.Client) -> None:
    push(client, "old", 1)
    async with watch(broker) as connection:
        first = await event(connection)
        assert (first["type"], first["database"]) == ("snapshot", True)
        assert queues(first)["old"]["pending"] == 1
        await asyncio.to_thread(push, client, "new", *range(50))
        update = await until(connection, "newQueues")
        assert (update["type"], update["newQueues"]) == ("update", ["new"])
        assert set(queues(update)) == {"new"}
        assert queues(update)["new"]["pending"] == 50
        assert update["throughput"]["pushedPerSecond"] > 0
        (message,) = await asyncio.to_thread(pop, client, "new")
        await asyncio.to_thread(ack, client, message, "dlq")
        dead = await until(connection, "deadLetters")
        assert dead["deadLetters"] == [{"queue": "new", "added": 1, "total": 1}]
        await asyncio.to_thread(client.delete, "/api/v1/resources/queues/old")
        assert (await until(connection, "removedQueues"))["removedQueues"] == ["old"]


async def test_changes_in_between_are_gathered(broker: Running, client: httpx2.Client) -> None:
    """A hundred pushes within a moment are a few events, and the last one has the final number."""
    async with watch(broker) as connection:
        await event(connection)
        for n in range(100):
            await asyncio.to_thread(push, client, "q", n)
        seen = 0
        while True:
            seen += 1
            if queues(await event(connection)).get("q", {}).get("pending") == 100:
                break
        assert seen < 20


async def test_nobody_looks_while_nobody_watches(broker: Running) -> None:
    live = broker.server.broker.live
    assert live.watchers == 0
    async with watch(broker) as first, watch(broker) as second:
        await event(first)
        await event(second)
        assert live.watchers == 2
    await eventually(lambda: live.watchers == 0)


async def test_a_slow_browser_holds_nobody_back(broker: Running, client: httpx2.Client) -> None:
    """One watcher reads nothing while names and numbers of 800 queues change; the broker and another go on."""
    slow = socket.create_connection(("127.0.0.1", broker.settings.port), timeout=10)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.sendall(
        b"GET /ws/dashboard HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    try:
        async with watch(broker) as quick:
            await event(quick)
            for turn in range(5):
                items = [{"queue": f"{n}-{'x' * 300}", "payload": turn} for n in range(800)]
                answer = await asyncio.to_thread(client.post, "/api/v1/push", json={"items": items})
                assert answer.status_code == 201
                while not (await event(quick))["queues"]:
                    pass
    finally:
        slow.close()
    await eventually(lambda: broker.server.broker.live.watchers == 0)


async def test_the_broker_stops_while_somebody_watches(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker:
        connection = await watch(broker)
        await event(connection)
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(drained(connection), 10)
    await connection.close()


async def test_an_unknown_path_is_no_socket(broker: Running) -> None:
    with pytest.raises(InvalidStatus):
        await connect(f"{broker.url.replace('http', 'ws')}/ws/nothing", proxy=None, open_timeout=10)


@pytest.fixture
def guarded(database: str, tmp_path: Path) -> Iterator[Running]:
    with run_broker(database, tmp_path, jwt_enabled=True, jwt_secret=SECRET) as running:
        yield running


async def test_a_token_is_asked_for(guarded: Running) -> None:
    token = jwt.encode({"role": "read-only"}, SECRET, algorithm="HS256")
    with pytest.raises(InvalidStatus):
        await watch(guarded)
    with pytest.raises(InvalidStatus):
        await watch(guarded, "?token=nonsense")
    async with watch(guarded, f"?token={token}") as connection:
        assert (await event(connection))["type"] == "snapshot"
