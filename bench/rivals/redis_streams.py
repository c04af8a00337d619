"""Redis Streams: a server of its own that syncs every write to disk, as PostgreSQL does."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import redis.asyncio as redis

from rivals.rival import Rival


class RedisStreams(Rival):
    """XADD in a pipeline, XREADGROUP, XACK and XDEL."""

    name = "Redis Streams"
    shared = "whatever arrives in one turn of its loop"
    lacks = "all data in memory, order of a key only with one consumer, no retries or dead letters of its own"

    @property
    def servers(self) -> list[int]:
        return [self._server.pid]

    @property
    def uses_postgres(self) -> bool:
        return False

    async def open(self) -> None:
        socket = Path(self.place.directory) / "redis.sock"
        self._server = subprocess.Popen(  # noqa: ASYNC220 - back at once
            ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", self.place.directory,
             "--appendonly", "yes", "--appendfsync", "always", "--save", ""],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self._redis = redis.Redis(unix_socket_path=str(socket), max_connections=64, decode_responses=True)
        async with asyncio.timeout(20):
            while True:
                try:
                    await self._redis.xgroup_create("bench", "workers", id="0", mkstream=True)
                    break
                except redis.ConnectionError:
                    await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self._redis.aclose()
        self._server.terminate()
        self._server.wait(30)

    async def push(self, payloads: list[str]) -> None:
        async with self._redis.pipeline(transaction=len(payloads) > 1) as pipeline:
            for payload in payloads:
                pipeline.xadd("bench", {"payload": payload})
            await pipeline.execute()

    async def take(self, batch: int) -> list[str]:
        return await self._read(batch, None)

    async def wait(self) -> list[str]:
        return await self._read(1, 1000)

    async def _read(self, batch: int, block: int | None) -> list[str]:
        found = await self._redis.xreadgroup("workers", "one", {"bench": ">"}, count=batch, block=block)
        if not found:
            return []
        [(_, entries)] = found.items() if isinstance(found, dict) else found
        entries = entries[0] if entries and isinstance(entries[0], list) else entries
        ids = [entry[0] for entry in entries]
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.xack("bench", "workers", *ids)
            pipeline.xdel("bench", *ids)
            await pipeline.execute()
        return [entry[1]["payload"] for entry in entries]
