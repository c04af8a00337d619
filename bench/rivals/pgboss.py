"""pg-boss: a program for Node that runs each load by itself, with the package from npm."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from rivals.rival import Rival

# Where `npm install pg-boss` was run.
MODULES = "QUEEN_BENCH_NODE"


class PgBoss(Rival):
    """Jobs sent one by one or inserted together, fetched and completed."""

    name = "pg-boss"
    shared = "1"
    lacks = "no order among consumers, no consumer groups; its workers poll twice a second at most"

    @property
    def clients(self) -> list[int]:
        return [self._node.pid]

    async def open(self) -> None:
        script = str(Path(__file__).with_name("pgboss.mjs"))
        self._node = await asyncio.create_subprocess_exec(
            "node",
            script,
            self.place.url,
            os.environ[MODULES],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        await self._answer(60)

    async def close(self) -> None:
        assert self._node.stdin is not None
        self._node.stdin.close()
        await asyncio.wait_for(self._node.wait(), 30)

    async def push(self, payloads: list[str]) -> None:
        raise NotImplementedError("each load runs in the other process")

    async def take(self, batch: int) -> list[str]:
        raise NotImplementedError("each load runs in the other process")

    async def wait(self) -> list[str]:
        raise NotImplementedError("each load runs in the other process")

    async def fill(self, count: int) -> None:
        await self._ask(300, load="fill", count=count)

    async def run_push(self, batch: int, seconds: float) -> int:
        return int(await self._ask(seconds + 60, load="push", batch=batch, seconds=seconds))

    async def run_take(self, batch: int, seconds: float) -> int:
        return int(await self._ask(seconds + 60, load="take", batch=batch, seconds=seconds))

    async def run_delivery(self, rate: int, seconds: float) -> list[float]:
        found: list[float] = await self._ask(seconds + 60, load="delivery", rate=rate, seconds=seconds)
        return found

    async def _ask(self, limit: float, **what: Any) -> Any:
        assert self._node.stdin is not None
        self._node.stdin.write(json.dumps({**what, "callers": self.callers}).encode() + b"\n")
        return await self._answer(limit)

    async def _answer(self, limit: float) -> Any:
        assert self._node.stdout is not None
        return json.loads(await asyncio.wait_for(self._node.stdout.readline(), limit))
