"""How this process did lately: processor, memory and connections, a sample every few seconds for an hour."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Final

import psutil
from msgspec import Struct

from queen.db.pool import Database

INTERVAL: Final = 10.0
KEPT: Final = 360


class Sample(Struct, frozen=True, kw_only=True):
    """One sample; processor time in percent of one core since the sample before, memory in bytes."""

    at: float
    cpu_percent: float
    rss: int
    virtual: int
    pool_size: int
    pool_idle: int


class Samples:
    """Takes samples in the background."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process = psutil.Process()
        self._taken: deque[Sample] = deque(maxlen=KEPT)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first sample is taken now."""
        self._process.cpu_percent()
        self.take()
        self._task = asyncio.create_task(self._go_on(), name="queen-samples")

    async def stop(self) -> None:
        """Take no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def take(self) -> Sample:
        """Take a sample now."""
        memory = self._process.memory_info()
        size, idle = self._database.sizes
        sample = Sample(
            at=time.time(),
            cpu_percent=self._process.cpu_percent(),
            rss=memory.rss,
            virtual=memory.vms,
            pool_size=size,
            pool_idle=idle,
        )
        self._taken.append(sample)
        return sample

    def between(self, since: float, until: float) -> list[Sample]:
        """The samples of a stretch of time, oldest first."""
        return [sample for sample in self._taken if since <= sample.at <= until]

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            self.take()
