"""Queen three ways: SQL, the engine in our process, and a broker over HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import asyncpg
from broker import run_broker
from loads import sql

import queen
from queen.db import migrate
from queen.db.pool import Database
from queen.engine import Engine
from queen.model import NewMessage, PopRequest
from rivals.rival import Rival

PARTITIONS = 200


def number(payload: str) -> int:
    """The number in a payload, without the work of reading all of it."""
    return int(payload[6 : payload.index(",")])


def placed(payloads: list[str]) -> list[tuple[str, str]]:
    """The payloads with their partitions: single ones in turn, larger calls by hundreds, so that a batch is of one."""
    each = 1 if len(payloads) == 1 else 100
    return [(f"p{number(payload) // each % PARTITIONS}", payload) for payload in payloads]


async def warm(rival: Rival) -> None:
    """Every partition exists, and is empty: making one is work of its own."""
    await asyncio.gather(*(rival.push(rival.payloads(1)) for _ in range(PARTITIONS)))
    while await rival.take(100):
        pass


async def prepare(url: str) -> None:
    """Our schema."""
    async with migrate.connect(url) as connection:
        await migrate.up(connection)


class QueenSql(Rival):
    """SQL functions through asyncpg."""

    name = "Queen, SQL"
    shared = "1"
    lacks = "no waiting for messages: a caller polls"

    async def open(self) -> None:
        await prepare(self.place.url)
        self._pool = await asyncpg.create_pool(self.place.url, min_size=self.callers, max_size=2 * self.callers)
        await warm(self)

    async def close(self) -> None:
        await self._pool.close()

    async def push(self, payloads: list[str]) -> None:
        await self._pool.fetch(sql("peers/queen_push"), *map(list, zip(*placed(payloads), strict=True)))

    async def take(self, batch: int) -> list[str]:
        rows = await self._pool.fetch(sql("peers/queen_pop"), batch)
        for lease in {row["lease_id"] for row in rows}:
            await self._pool.fetch(sql("peers/queen_ack"), lease)
        return [row["payload"] for row in rows]

    async def wait(self) -> list[str]:
        raise NotImplementedError("SQL does not wait; the engine and the clients do")


class QueenEngine(Rival):
    """The engine, straight on the database."""

    name = "Queen, engine"
    shared = "up to 8 callers"
    lacks = "a message is delivered at least once, not exactly once"

    async def open(self) -> None:
        await prepare(self.place.url)
        self._engine = Engine(Database(self.place.url), listen_url=self.place.url)
        await self._engine.__aenter__()
        await warm(self)

    async def close(self) -> None:
        await self._engine.__aexit__(None, None, None)

    async def push(self, payloads: list[str]) -> None:
        await self._engine.push(
            [NewMessage(queue="bench", partition=name, payload=payload) for name, payload in placed(payloads)]
        )

    async def take(self, batch: int) -> list[str]:
        return await self._pop(PopRequest(queue="bench", batch=batch))

    async def wait(self) -> list[str]:
        return await self._pop(PopRequest(queue="bench", wait=5))

    async def _pop(self, request: PopRequest) -> list[str]:
        found = await self._engine.pop(request)
        await self._engine.ack_messages(found)
        return [message.payload for message in found]


class QueenHttp(Rival):
    """Our client over HTTP to a broker with one worker."""

    name = "Queen, HTTP"
    shared = "up to 8 callers"
    lacks = "a message is delivered at least once, not exactly once"

    @property
    def servers(self) -> list[int]:
        return [self._pid]

    async def open(self) -> None:
        await prepare(self.place.url)
        self._stack = ExitStack()
        broker = run_broker(self.place.url, Path(self.place.directory) / "broker", 1, "uvicorn")
        url, self._pid = self._stack.enter_context(broker)
        self._client = await queen.connect(url).__aenter__()
        await warm(self)

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)
        self._stack.close()

    async def push(self, payloads: list[str]) -> None:
        await self._client.push_all(
            queen.Push("bench", json.loads(payload), partition=name) for name, payload in placed(payloads)
        )

    async def take(self, batch: int) -> list[str]:
        return await self._pop(batch, 0)

    async def wait(self) -> list[str]:
        return await self._pop(1, 5)

    async def _pop(self, batch: int, wait: float) -> list[str]:
        found = await self._client.pop("bench", batch=batch, wait=wait)
        await self._client.ack(found)
        return [json.dumps(message.data) for message in found]
