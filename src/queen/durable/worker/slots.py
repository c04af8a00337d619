"""A fetch loop that keeps a fixed number of slots busy."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from queen.durable.provider import Provider, ProviderError
from queen.durable.worker.counters import Counters

Item = TypeVar("Item")

_log = logging.getLogger("queen.durable.worker")
_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 3.0
_GIVE_BACK_SECONDS = 5.0


class SlotLoop(ABC, Generic[Item]):
    """One fetcher for many slots: it asks for as many items as there are free slots."""

    name: str

    def __init__(self, provider: Provider, counters: Counters, slots: int) -> None:
        self._provider = provider
        self._counters = counters
        self._slots = slots
        self._busy: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()
        self._stopping = False
        self._fetching: asyncio.Task[list[Item]] | None = None

    @abstractmethod
    async def fetch(self, limit: int) -> list[Item]:
        """Lock up to `limit` items, waiting for the first."""

    @abstractmethod
    async def fetch_unknown(self, limit: int) -> list[Item]:
        """Lock items that no live worker has code for, without waiting."""

    async def take_unknown(self) -> None:
        """Deal with items that no live worker has code for, as far as there are free slots."""
        free = self._slots - len(self._busy)
        if free > 0 and not self._stopping:
            for item in await self.fetch_unknown(free):
                self._begin(item)

    @abstractmethod
    async def handle(self, item: Item) -> None:
        """Do the work of one item; must not raise."""

    @property
    def is_idle(self) -> bool:
        """Whether every slot is free."""
        return not self._busy

    async def run(self) -> None:
        """Fetch and handle until stopped."""
        backoff = _FIRST_BACKOFF
        while not self._stopping:
            free = self._slots - len(self._busy)
            if free <= 0:
                self._freed.clear()
                await self._freed.wait()
                continue
            try:
                items = await self._fetch_once(free)
                backoff = _FIRST_BACKOFF
            except ProviderError as error:
                if error.code == "closed":
                    return
                self._counters.provider_errors += 1
                _log.warning("%s fetch failed, trying again in %.1f s: %s", self.name, backoff, error)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF)
                continue
            for item in items:
                self._begin(item)

    async def stop(self, timeout: float) -> None:
        """Stop fetching, let running items finish until the deadline, then cut them off."""
        self._stopping = True
        self._freed.set()
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching}, timeout=_GIVE_BACK_SECONDS)
        if self._busy:
            await asyncio.wait(self._busy, timeout=timeout)
        for task in list(self._busy):
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy, timeout=1.0)

    async def _fetch_once(self, limit: int) -> list[Item]:
        self._fetching = asyncio.create_task(self.fetch(limit))
        try:
            return await self._fetching
        except asyncio.CancelledError:
            if self._stopping:
                return []
            raise

    def _begin(self, item: Item) -> None:
        task = asyncio.create_task(self.handle(item))
        self._busy.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        self._freed.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s slot ended in an error", self.name, exc_info=task.exception())
