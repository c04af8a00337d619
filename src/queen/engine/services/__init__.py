"""Background services: each has a name, an interval, and one process that runs it at a time."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from queen.db.pool import Database, Row
from queen.errors import QueenError
from queen.ids import uuid7
from queen.sql import query

__all__ = ["Service", "ServiceRunner"]

log = structlog.get_logger(__name__)


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

    def start(self) -> None:
        """Begin to run every service in the background."""
        self._tasks = [
            asyncio.create_task(self._loop(service), name=f"queen-service-{service.name}") for service in self._services
        ]

    async def stop(self) -> None:
        """Stop all services; one that is under way is broken off and left to the next holder."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def status(self) -> list[Row]:
        """Every service any process has run: interval, holder, last success, last error."""
        return await self._database.fetch(query("services/list"))

    async def tick(self, service: Service) -> bool:
        """Run the current slot of a service unless it was run or is someone else's; tells whether it ran."""
        row = await self._database.fetchrow(
            query("services/hold"), service.name, self.holder, max(int(service.interval * 1000), 1)
        )
        if not row["held"]:
            return False
        try:
            result = await service.run()
        except QueenError as error:
            await self._report(service, None, f"{error.code}: {error.message}")
            raise
        await self._report(service, result, None)
        return True

    async def _report(self, service: Service, result: Mapping[str, Any] | None, error: str | None) -> None:
        text = None if result is None else msgspec.json.encode(result).decode()
        await self._database.fetch(query("services/report"), service.name, self.holder, text, error)

    async def _loop(self, service: Service) -> None:
        while True:
            try:
                await self.tick(service)
            except QueenError as error:
                log.warning("service failed", service=service.name, code=error.code, error=error.message)
            await asyncio.sleep(service.interval - time.time() % service.interval + 0.001)
