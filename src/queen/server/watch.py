"""Keeps an eye on the database: is it there, which maintenance modes are on, what waits in the disk buffer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Literal

import structlog
from msgspec import Struct

from queen import errors
from queen.db.migrate import MigrationError
from queen.db.pool import Database
from queen.server.buffer import Buffer
from queen.sql import query

LOG: Final = structlog.get_logger("queen.watch")
_UP_INTERVAL: Final = 1.0
_DOWN_INTERVAL: Final = 0.25
_ANSWER_LIMIT: Final = 5.0
_PREPARE_LIMIT: Final = 300.0
_DRAIN_INTERVAL: Final = 0.1
_DRAIN_PAUSE: Final = 5.0


class Modes(Struct, frozen=True):
    """Which maintenance modes are on."""

    push: bool = False
    pop: bool = False


class Watch:
    """Looks every second, and at once when somebody met a failure.

    `up` is what pushes go by: while it is False they go to the disk buffer without trying. `prepare` is
    called when the database is met for the first time, `looked` after every look.
    """

    def __init__(
        self,
        database: Database,
        buffer: Buffer,
        prepare: Callable[[], Awaitable[None]],
        looked: Callable[[], None],
    ) -> None:
        self._database = database
        self._buffer = buffer
        self._prepare = prepare
        self._looked = looked
        self._look_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._prepared = False
        self.up = False
        self.modes = Modes()
        self.problem = "not connected yet"

    async def start(self) -> None:
        """Look once, then go on looking in the background."""
        await self._buffer.open()
        await self._look()
        self._tasks = [
            asyncio.create_task(self._watch(), name="queen-watch"),
            asyncio.create_task(self._drain(), name="queen-drain"),
        ]

    async def stop(self) -> None:
        """Stop looking; a drain that is under way ends with its current chunk."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    def doubt(self) -> None:
        """Somebody's call failed for want of the database: look now."""
        self._look_now.set()

    async def switch(self, mode: Literal["push", "pop"], *, on: bool) -> Modes:
        """Switch a maintenance mode for all brokers of this database."""
        row = await self._database.fetchrow(query("server/set_mode"), mode, on)
        self._take(Modes(row["push"], row["pop"]))
        return self.modes

    async def reachable(self) -> bool:
        """Ask the database for a sign of life."""
        try:
            async with asyncio.timeout(_ANSWER_LIMIT):
                await self._database.fetch(query("engine/ping"))
        except (errors.QueenError, OSError, TimeoutError):
            return False
        return True

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), _UP_INTERVAL if self.up else _DOWN_INTERVAL)
            self._look_now.clear()
            try:
                await self._look()
            except Exception as error:
                LOG.error("a defect while looking at the database", exc_info=error)
                await asyncio.sleep(_UP_INTERVAL)

    async def _look(self) -> None:
        try:
            if not self._prepared:
                async with asyncio.timeout(_PREPARE_LIMIT):
                    await self._prepare()
                self._prepared = True
            async with asyncio.timeout(_ANSWER_LIMIT):
                row = await self._database.fetchrow(query("server/modes"))
        except (errors.QueenError, OSError, TimeoutError, MigrationError) as error:
            if isinstance(error, MigrationError) and not self._tasks:
                raise
            problem = str(error) or "no answer in time"
            if self.up or not self._prepared:
                LOG.warning("the database is away; pushes go to the disk buffer", reason=problem)
            self.up, self.problem = False, problem
            self._looked()
            return
        if not self.up:
            LOG.info("the database is there")
        self.up, self.problem = True, ""
        self._take(Modes(row["push"], row["pop"]))

    def _take(self, modes: Modes) -> None:
        if modes != self.modes:
            LOG.info("maintenance modes", push=modes.push, pop=modes.pop)
        self.modes = modes
        self._looked()

    async def _drain(self) -> None:
        pause, told = _DRAIN_INTERVAL, ""
        while True:
            await asyncio.sleep(pause)
            try:
                leads = await self._buffer.lead()
                told = ""
                if not leads or not self.up or self.modes.push or not self._buffer.pending:
                    pause = _DRAIN_INTERVAL
                elif drained := await self._buffer.drain():
                    LOG.info("the disk buffer was drained", messages=drained, left=self._buffer.pending)
                    pause = _DRAIN_INTERVAL
                else:
                    pause = min(pause * 2, _DRAIN_PAUSE)
            except Exception as error:  # noqa: BLE001 - whatever it is, the drain goes on later
                expected = isinstance(error, errors.QueenError | OSError)
                if str(error) != told:
                    tell = LOG.warning if expected else LOG.error
                    tell("draining the disk buffer stopped", reason=str(error), exc_info=None if expected else error)
                told = str(error)
                self.doubt()
                pause = min(pause * 2, _DRAIN_PAUSE)
