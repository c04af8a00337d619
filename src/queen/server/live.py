"""Live events for browsers, gathered: one look at the database per tick, whoever watches and however many.

Each watcher compares the latest look with what it last sent. One that is slow misses looks in between
and goes on with the latest: nothing piles up, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Self

from msgspec import Struct

from queen.db.pool import Database
from queen.engine.reports import QueueTotals, Reports
from queen.errors import QueenError

TICK: Final = 1.0
WATCHERS: Final = 500
# A look that takes long is taken less often: at most this share of the time is spent looking.
_SHARE: Final = 0.1


class Rate(Struct, frozen=True):
    """Messages per second since the look before."""

    pushed: float = 0.0
    popped: float = 0.0
    acked: float = 0.0


_NO_RATE: Final = Rate()


class Look(Struct, frozen=True):
    """Every queue at one moment, and what went on since the look before; `problem` when the database did not answer."""

    at: float
    queues: Mapping[str, QueueTotals]
    rates: Mapping[str, Rate]
    total: Rate
    problem: str | None = None


class Change(Struct, frozen=True):
    """What is different between two looks: queues that changed, came or went, and dead letters added."""

    changed: list[str]
    new: list[str]
    gone: list[str]
    dead_letters: dict[str, int]


def compare(before: Look, now: Look) -> Change:
    """What a watcher that knows `before` has to be told."""
    return Change(
        [
            name
            for name, queue in now.queues.items()
            if queue != before.queues.get(name) or now.rates.get(name, _NO_RATE) != before.rates.get(name, _NO_RATE)
        ],
        [name for name in now.queues if name not in before.queues],
        [name for name in before.queues if name not in now.queues],
        {
            name: added
            for name, queue in now.queues.items()
            if name in before.queues and (added := queue.dead_letters - before.queues[name].dead_letters) > 0
        },
    )


class Live:
    """Looks at the queues while somebody watches."""

    def __init__(self, database: Database, *, tick: float = TICK) -> None:
        self._reports = Reports(database)
        self._tick = tick
        self._looked = asyncio.Condition()
        self._latest: Look | None = None
        self._looking: asyncio.Task[None] | None = None
        self.watchers = 0

    async def __aenter__(self) -> Self:
        self.watchers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on(), name="queen-live")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.watchers -= 1
        if not self.watchers:
            await self.stop()

    async def stop(self) -> None:
        """Look no more."""
        task, self._looking, self._latest = self._looking, None, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def after(self, seen: Look | None) -> Look:
        """The latest look that is not `seen`; waits for it."""
        async with self._looked:
            await self._looked.wait_for(lambda: self._latest is not None and self._latest is not seen)
            assert self._latest is not None
            return self._latest

    async def _look_on(self) -> None:
        while True:
            started = time.monotonic()
            look = await self._look(self._latest)
            async with self._looked:
                self._latest = look
                self._looked.notify_all()
            took = time.monotonic() - started
            await asyncio.sleep(max(self._tick - took, took / _SHARE - took))

    async def _look(self, before: Look | None) -> Look:
        try:
            totals = await self._reports.totals()
        except QueenError as error:
            return Look(time.time(), before.queues if before else {}, {}, Rate(), error.message)
        now = time.time()
        queues = {queue.name: queue for queue in totals}
        if before is None or before.problem is not None:
            return Look(now, queues, {}, Rate())
        seconds = max(now - before.at, 0.001)
        rates = {name: _rate(before.queues.get(name), queue, seconds) for name, queue in queues.items()}
        total = Rate(
            round(sum(rate.pushed for rate in rates.values()), 1),
            round(sum(rate.popped for rate in rates.values()), 1),
            round(sum(rate.acked for rate in rates.values()), 1),
        )
        return Look(now, queues, rates, total)


def _rate(before: QueueTotals | None, now: QueueTotals, seconds: float) -> Rate:
    if before is None or before.id != now.id:
        return Rate(*(round(count / seconds, 1) for count in (now.pushed, now.popped, now.acked)))
    return Rate(
        round(max(now.pushed - before.pushed, 0) / seconds, 1),
        round(max(now.popped - before.popped, 0) / seconds, 1),
        round(max(now.acked - before.acked, 0) / seconds, 1),
    )
