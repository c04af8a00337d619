"""pgmq: its SQL, from the package on PyPI, through asyncpg."""

from __future__ import annotations

from importlib import resources

import asyncpg
from loads import sql

from rivals.rival import Rival


class Pgmq(Rival):
    """Reads hide messages for a minute, deletes end them."""

    name = "pgmq"
    shared = "1"
    lacks = (
        "no order among consumers, no consumer groups, no ids of the caller's, no retries or dead letters of its own"
    )

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.place.url, min_size=self.callers, max_size=2 * self.callers)
        await self._pool.execute((resources.files("pgmq") / "sql" / "pgmq.sql").read_text())
        await self._pool.execute(sql("peers/pgmq_create"))

    async def close(self) -> None:
        await self._pool.close()

    async def push(self, payloads: list[str]) -> None:
        await self._pool.fetch(sql("peers/pgmq_send"), payloads)

    async def take(self, batch: int) -> list[str]:
        return await self._read("peers/pgmq_read", batch)

    async def wait(self) -> list[str]:
        return await self._read("peers/pgmq_poll", 1)

    async def _read(self, name: str, batch: int) -> list[str]:
        rows = await self._pool.fetch(sql(name), batch)
        if rows:
            await self._pool.fetch(sql("peers/pgmq_delete"), [row["msg_id"] for row in rows])
        return [row["message"] for row in rows]
