"""One connection per process that listens for wake-ups, and keeps coming back when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import asyncpg

from queen.sql import query

CHANNEL: Final = "queen"
_RETRY: Final = (0.1, 0.5, 1.0, 2.0, 5.0)


class Listener:
    """Calls `heard` with the payload of every notification on Queen's channel.

    Notifications are only hints: whoever waits also polls. `heard(None)` is called after a
    reconnect, when anything may have been missed.
    """

    def __init__(self, dsn: str, heard: Callable[[str | None], None], *, timeout: float = 10.0) -> None:
        self._dsn = dsn
        self._heard = heard
        self._timeout = timeout
        self._task: asyncio.Task[None] | None = None
        self.connected = False

    def start(self) -> None:
        """Begin to listen in the background."""
        self._task = asyncio.create_task(self._run(), name="queen-listen")

    async def stop(self) -> None:
        """Stop listening and close the connection."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
                failures = 0
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                failures += 1
            self.connected = False
            await asyncio.sleep(_RETRY[min(failures, len(_RETRY) - 1)])

    async def _listen(self) -> None:
        connection = await asyncpg.connect(
            self._dsn,
            timeout=self._timeout,
            statement_cache_size=0,
            server_settings={"application_name": "queen-listen"},
        )
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, lambda *event: self._heard(str(event[3])))
            self.connected = True
            self._heard(None)
            while not lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), 30)
                if not lost.is_set():
                    await connection.execute(query("engine/ping"), timeout=self._timeout)
        finally:
            self.connected = False
            with suppress(Exception):
                await asyncio.wait_for(asyncio.shield(connection.close(timeout=2)), 3)
