"""A clock for tests: time in the database goes on as usual, and further when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from queen.db import migrate
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.migrate import Connection

T = TypeVar("T")


class Clock:
    """Moves the time that leases, delays, schedules and retention go by. Never back.

    It changes `queen.clock()` in the database it is given: for test databases only.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._do(lambda connection: connection.execute(query("testing/move_clock")))

    def advance(self, seconds: float) -> datetime:
        """Let this much time pass at once; whoever waits is woken. Returns the new time."""
        if seconds < 0:
            raise ValueError("the clock never goes back: seconds must not be negative")
        self._do(lambda connection: connection.execute(query("testing/advance_clock"), seconds))
        return self.now()

    def now(self) -> datetime:
        """The time in the database."""
        found: datetime = self._do(lambda connection: connection.fetchval(query("testing/clock")))
        return found

    def _do(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async def main() -> T:
            async with migrate.connect(self._url) as connection:
                return await work(connection)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, main()).result()
