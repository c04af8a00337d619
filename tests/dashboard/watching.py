"""What a page asks the database for, seen from inside the broker's process; and pages as their scripts behave."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

LARGE = {
    "messages", "partitions", "partition_consumers", "stats", "dead_letter_queue", "audit", "instances",
    "executions",
}  # fmt: skip
AT_MOST_A_PAGE = 500
"""Rows that a page may read from a large table without an index: what fits into a few blocks."""


@dataclass
class Asked:
    """A statement with its arguments, and the seconds until its answer."""

    statement: str
    arguments: tuple[Any, ...]
    seconds: float


@dataclass
class Recorder:
    """The statements of requests; not those of services, of the watch over the database, or of the shared look."""

    asked: list[Asked] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)

    def take(self) -> list[Asked]:
        """What was asked since the last time."""
        found, self.asked = self.asked, []
        return found


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Note every statement that brokers of this process run within the block."""
    recorder = Recorder()
    fetch = asyncpg.Connection.fetch

    async def noting(self: Any, query: str, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        found = await fetch(self, query, *args, **options)
        task = asyncio.current_task()
        name = task.get_name() if task else ""
        if name == "queen-look":
            recorder.looks.append(time.perf_counter() - began)
        elif not name.startswith("queen-"):
            recorder.asked.append(Asked(query, args, time.perf_counter() - began))
        return found

    asyncpg.Connection.fetch = noting  # type: ignore[method-assign]
    try:
        yield recorder
    finally:
        asyncpg.Connection.fetch = fetch  # type: ignore[method-assign]


async def explain(database: str, asked: list[Asked]) -> tuple[list[str], int]:
    """Large tables that the statements read as a whole, and how many blocks they touched, functions included."""
    connection = await asyncpg.connect(database)
    scans, blocks = [], 0
    try:
        for each in asked:
            if "set_config" in each.statement:
                continue
            async with connection.transaction(readonly=True):
                text = await connection.fetchval(
                    f"explain (analyze, buffers, format json) {each.statement}", *each.arguments
                )
            plan = json.loads(text)[0]["Plan"]
            blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            scans += [f"{name}: {each.statement[:200]}" for name in _scanned(plan)]
    finally:
        await connection.close()
    return scans, blocks


def _scanned(plan: dict[str, Any]) -> Iterator[str]:
    rows = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in LARGE and rows > AT_MOST_A_PAGE:
        yield plan["Relation Name"]
    for part in plan.get("Plans", []):
        yield from _scanned(part)


class Pages:
    """Open pages, as far as the broker notices them: told over a WebSocket, they fetch themselves again."""

    def __init__(self, url: str, paths: list[str]) -> None:
        self._url = url
        self._paths = paths
        self.fetched = 0
        self.bytes = 0

    async def watch(self, stop: asyncio.Event) -> None:
        """Stay open until told to stop."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=30) as client, asyncio.TaskGroup() as group:
            opened = [group.create_task(self._one(client, path)) for path in self._paths]
            await stop.wait()
            for task in opened:
                task.cancel()

    async def _one(self, client: httpx2.AsyncClient, path: str) -> None:
        await self._fetch(client, path, {})
        with suppress(ConnectionClosed):
            async with connect(f"{self._url.replace('http', 'ws')}/ws/pages", proxy=None) as line:
                async for _ in line:
                    await self._fetch(client, path, {"x-queen-live": "1"})

    async def _fetch(self, client: httpx2.AsyncClient, path: str, headers: dict[str, str]) -> None:
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        self.fetched += 1
        self.bytes += len(answer.content)
