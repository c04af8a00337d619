"""Keeps the locks of running work alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from queen.durable.provider import ProviderError

_log = logging.getLogger("queen.durable.worker")

Renew = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
Lost = Callable[[], None]


class Renewal:
    """Renews every held token each `interval` seconds; whoever lost a lock is told at once."""

    def __init__(self, renew: Renew, interval: float) -> None:
        self._renew = renew
        self._interval = interval
        self._held: dict[str, tuple[float, Lost]] = {}
        self._any_held = asyncio.Event()

    @contextmanager
    def holding(self, token: str, on_lost: Lost) -> Iterator[None]:
        """Keep `token` alive inside the block."""
        self._held[token] = (asyncio.get_running_loop().time() + self._interval, on_lost)
        self._any_held.set()
        try:
            yield
        finally:
            self._held.pop(token, None)

    async def run(self) -> None:
        """Renew what is due, sleep until the next is; sleeps for good while nothing is held."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._held:
                self._any_held.clear()
                await self._any_held.wait()
                continue
            first = min(due for due, _ in self._held.values())
            await asyncio.sleep(max(first - loop.time(), 0.01))
            due = [token for token, (when, _) in self._held.items() if when <= loop.time()]
            if due:
                await self.renew(due)

    async def renew(self, due: Sequence[str]) -> None:
        """Renew these now, and tell those that are lost."""
        try:
            lost = await self._renew(due)
        except ProviderError as error:
            _log.warning("locks could not be renewed: %s", error)
            lost = []
        later = asyncio.get_running_loop().time() + self._interval
        for token in due:
            held = self._held.get(token)
            if held is None:
                continue
            if token in lost:
                del self._held[token]
                held[1]()
            else:
                self._held[token] = (later, held[1])
