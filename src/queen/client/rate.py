"""So many messages of a queue per time, over all workers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from queen.client.push import Push
from queen.errors import InvalidRequest

if TYPE_CHECKING:
    from queen.client.client import Client

_SHARES: Final = 10


@dataclass
class Rate:
    """At most `count` per `per` seconds.

    Time is cut into windows of `per` seconds, and the permits of a window into shares. A share belongs to the worker
    whose push of its name was not a duplicate, so all workers together never begin more than `count` in a window.
    """

    queue: str
    count: int
    per: float
    permits: str
    _window: int = field(default=0, init=False)
    _left: int = field(default=0, init=False)
    _tried: int = field(default=0, init=False)
    _ready: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.count < 1 or not 0.1 <= self.per <= 86_400:
            raise InvalidRequest("rate", "a rate must be at least 1 message per 0.1 to 86400 seconds")

    async def take(self, client: Client) -> float:
        """Take one permit: 0, or how many seconds to wait before asking again."""
        now = time.time()
        window = int(now / self.per)
        if window != self._window:
            self._window, self._left, self._tried = window, 0, 0
        share = ceil(self.count / _SHARES)
        while not self._left:
            if self._tried * share >= self.count:
                return max((window + 1) * self.per - now, 0.001)
            size = min(share, self.count - self._tried * share)
            self._tried += 1
            if await self._claim(client, f"{window}:{self._tried}") and self._window == window:
                self._left += size
        self._left -= 1
        return 0.0

    async def _claim(self, client: Client, name: str) -> bool:
        if not self._ready:
            keep = max(60, ceil(self.per * 2))
            await client.queues.configure(self.permits, retention_enabled=True, retention_seconds=keep)
            self._ready = True
        pushed = await client.push_all([Push(self.permits, None, self.queue, name)])
        return pushed[0].status == "queued"
