"""Background services: each has a name, an interval, and one process that runs it at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import msgspec

from queen.db.pool import Database, Row
from queen.errors import QueenError
from queen.ids import uuid7
from queen.sql import query

__all__ = ["Service", "ServiceRunner"]

_log = logging.getLogger("queen.services")

# Seconds: for a stopping process to give its services back; between two warnings about the same service.
GIVE_BACK: Final = 2.0
WARN_EVERY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Service:
    """One job that has to be done every `interval` seconds; `run` returns what it did."""

    name: str
    interval: float
    run: Callable[[], Awaitable[Mapping[str, Any]]]


class ServiceRunner:
    """Runs services beside other processes that run the same ones.

    Time is cut into slots of one interval. Whoever holds a service's row runs the slot; others step
    in when the holder's time ran out, so a killed process is replaced within two intervals.
    """

    def __init__(self, database: Database, services: Sequence[Service], *, holder: str | None = None) -> None:
        self._database = database
        self._services = services
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}:{uuid7().hex[-8:]}"
        self._tasks: list[asyncio.Task[None]] = []
        self._warned: dict[str, float] = {}

    def start(self) -> None:
        """Begin to run every service in the background."""
        self._tasks = [
            asyncio.create_task(self._loop(service), name=f"queen-service-{service.name}") for service in self._services
        ]

    async def stop(self) -> None:
        """Stop all services and give them back; one that is under way is broken off and left to the next holder."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        with suppress(QueenError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK):
                await self._database.fetch(query("services/release"), self.holder)

    async def status(self) -> list[Row]:
        """Every service any process has run: interval, holder, last success, last error."""
        return await self._database.fetch(query("services/list"))

    async def tick(self, service: Service) -> bool:
        """Run the current slot of a service unless it was run or is someone else's; tells whether it ran."""
        row = await self._database.fetchrow(
            query("services/hold"), service.name, self.holder, max(int(service.interval * 1000), 1)
        )
        if row["late"]:
            self._warn(service)
        if not row["held"]:
            return False
        try:
            result = await service.run()
        except Exception as error:
            await self._report(service, None, _reason(error))
            raise
        await self._report(service, result, None)
        return True

    def _warn(self, service: Service) -> None:
        now = time.monotonic()
        if now - self._warned.get(service.name, -inf) >= max(service.interval, WARN_EVERY):
            self._warned[service.name] = now
            _log.warning("the service %s is late: no success for three intervals", service.name)

    async def _report(self, service: Service, result: Mapping[str, Any] | None, error: str | None) -> None:
        text = None if result is None else msgspec.json.encode(result).decode()
        await self._database.fetch(query("services/report"), service.name, self.holder, text, error)

    async def _loop(self, service: Service) -> None:
        while True:
            try:
                await self.tick(service)
            except Exception as error:  # noqa: BLE001 - a service ends with its process, whatever happens
                _log.warning("the service %s failed: %s", service.name, _reason(error))
            await asyncio.sleep(service.interval - time.time() % service.interval + 0.001)


def _reason(error: Exception) -> str:
    return f"{error.code}: {error.message}" if isinstance(error, QueenError) else f"{type(error).__name__}: {error}"
