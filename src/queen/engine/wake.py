"""Wake-ups: who waits on a queue hears at once that there is something, here and in other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import Final

from queen.db.pool import Database
from queen.errors import QueenError
from queen.sql import query

_GATHER: Final = 0.01


class Wake:
    """Tells waiters of this process directly and other processes by one gathered notification.

    A notification takes a database-wide lock at commit, so it never rides in a push. The first goes out at once;
    queues that become ready in the next few milliseconds are announced together after them.
    """

    def __init__(self, database: Database, *, notify: bool = True) -> None:
        self._database = database
        self._notify = notify
        self._origin = token_hex(8)
        self._ready: set[int] = set()
        self._sender: asyncio.Task[None] | None = None
        self._waiters: set[Callable[[str | None, int | None], None]] = set()

    def subscribe(self, heard: Callable[[str | None, int | None], None]) -> None:
        """Call `heard(queue name, queue id)` whenever a queue became ready; both None: look everywhere."""
        self._waiters.add(heard)

    def ready(self, queue: str | None, queue_id: int, *, announce: bool = True) -> None:
        """A lane of this queue went from nothing waiting to ready."""
        for heard in self._waiters:
            heard(queue, queue_id)
        if announce and self._notify:
            self._ready.add(queue_id)
            if self._sender is None:
                self._sender = asyncio.create_task(self._send(), name="queen-notify")

    def heard(self, payload: str | None) -> None:
        """A notification arrived, of another process or our own; None after a reconnect."""
        if payload is None:
            for heard in self._waiters:
                heard(None, None)
            return
        origin, _, queues = payload.rpartition(":")
        if origin == self._origin:
            return  # whoever waits here was told when it happened
        for part in queues.split(","):
            if part.isdigit():
                self.ready(None, int(part), announce=False)

    async def _send(self) -> None:
        try:
            while self._ready:
                ready, self._ready = self._ready, set()
                queues = ",".join(map(str, sorted(ready)[:500]))
                # A lost notification costs a poll interval, nothing else.
                with suppress(QueenError):
                    await self._database.fetch(query("engine/notify"), f"{self._origin}:{queues}")
                await asyncio.sleep(_GATHER)
        finally:
            self._sender = None

    async def close(self) -> None:
        """Send what is gathered and stop."""
        if self._sender is not None:
            await asyncio.wait([self._sender])
