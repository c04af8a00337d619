"""procrastinate: tasks deferred in batches, and its worker, which fetches one job at a time."""

from __future__ import annotations

import asyncio
import time

import procrastinate

from rivals.rival import Rival


class Procrastinate(Rival):
    """The worker is the only consumer it has, so taking is measured through it."""

    name = "procrastinate"
    shared = "1"
    lacks = "order per key only one job at a time (lock), no consumer groups, no batches of jobs"

    async def open(self) -> None:
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=self.place.url, min_size=4, max_size=self.callers + 2)
        )
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._done = 0

        @self._app.task(name="bench")
        async def bench(payload: str) -> None:
            self._done += 1
            self._heard.put_nowait(payload)

        self._task = bench
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()
        self._worker: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._app.close_async()

    async def push(self, payloads: list[str]) -> None:
        await self._task.batch_defer_async(*({"payload": payload} for payload in payloads))

    async def take(self, batch: int) -> list[str]:
        raise NotImplementedError

    async def run_take(self, batch: int, seconds: float) -> int:
        if batch > 1:
            return 0
        before, self._heard = self._done, asyncio.Queue()
        worker = asyncio.create_task(
            self._app.run_worker_async(concurrency=self.callers, wait=False, install_signal_handlers=False)
        )
        end = time.perf_counter() + seconds
        await asyncio.wait([worker], timeout=end - time.perf_counter())
        taken = self._done - before
        worker.cancel()
        await asyncio.wait([worker])
        return taken

    async def run_delivery(self, rate: int, seconds: float) -> list[float]:
        times = await super().run_delivery(rate, seconds)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        return times

    async def wait(self) -> list[str]:
        if self._worker is None:
            self._worker = asyncio.create_task(
                self._app.run_worker_async(concurrency=self.callers, install_signal_handlers=False)
            )
        try:
            return [await asyncio.wait_for(self._heard.get(), 1)]
        except TimeoutError:
            return []
