"""Random walks of the machine: each from one seed, shortened when it fails, and printed so that it can be run again."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from queen.config import Settings
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from tests.sql.machine import WEIGHTS, Machine, draw_options
from tests.sql.model import Violation
from tests.support.clock import MOVABLE, SET
from tests.support.work import Sql, connect

STEPS = 80


@dataclass
class Failure:
    """What went wrong, and the walk that leads there."""

    seed: int
    steps: Sequence[int]
    error: Exception
    history: list[str]

    def __str__(self) -> str:
        kept = ",".join(map(str, self.steps))
        lines = [f"{type(self.error).__name__}: {self.error}", *self.history]
        return "\n  ".join([*lines, f"again: QUEEN_TEST_MODEL_REPLAY={self.seed}:{kept}"])


@dataclass
class World:
    """A database with a clock of ours and two engines on it. `weights`: what may happen; `fixed`: options not drawn."""

    engines: list[Engine]
    sql: Sql
    outbox: Sql
    jobs: list[Jobs]
    weights: dict[str, int] = field(default_factory=lambda: dict(WEIGHTS))
    fixed: dict[str, Any] = field(default_factory=dict)
    count: int = 0
    taken: int = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncIterator[World]:
        pool = PoolOptions(size=2)
        async with (
            connect(dsn) as sql,
            connect(dsn) as outbox,
            Engine(Database(dsn, pool)) as one,
            Engine(Database(dsn, pool)) as other,
        ):
            await sql.execute(SET)
            await sql.execute(MOVABLE)
            yield cls([one, other], sql, outbox, [Jobs(engine, Settings()) for engine in (one, other)])

    async def walk(self, seed: int, steps: Sequence[int] = range(STEPS)) -> Failure | None:
        """Walk the steps of a seed, all or those named, on a queue of their own."""
        rng = random.Random(seed)
        options = draw_options(rng)
        for name, value in self.fixed.items():
            setattr(options, name, value)
        seeds = [rng.getrandbits(64) for _ in range(max(steps, default=0) + 1)]
        self.count += 1
        queue = f"q{self.count}"
        # Not before the real time: ids carry that, and are looked for by it.
        now = float(int(time.time()) + 100_000)
        machine = Machine(self.engines, self.sql, self.outbox, queue, options, now, self.jobs)
        history = [str(options)]
        number = 0
        try:
            await machine.start()
            for number in steps:
                await machine.step(seeds[number], self.weights)
                history.append(f"{number} {machine.action}")
                self.taken += 1
            machine.action = "finish"
            await machine.finish()
        except Exception as error:  # noqa: BLE001
            history.append(f"{number} {machine.action}  <-")
            return Failure(seed, [step for step in steps if step <= number], error, history)
        finally:
            await machine.end_held(commit=False)
            await self.engines[0].queues.delete(queue)
        return None

    async def shorten(self, failure: Failure, limit: float = 60) -> Failure:
        """Leave out steps for as long as it still fails the same way."""
        deadline = time.monotonic() + limit
        size = max(len(failure.steps) // 2, 1)
        while True:
            shorter = None
            for start in range(0, len(failure.steps), size):
                kept = [*failure.steps[:start], *failure.steps[start + size :]]
                again = await self.walk(failure.seed, kept) if kept else None
                if again is not None and type(again.error) is type(failure.error):
                    shorter = again
                    break
                if time.monotonic() > deadline:
                    return failure
            if shorter is not None:
                failure = shorter
                size = max(min(size, len(failure.steps) // 2), 1)
            elif size == 1:
                return failure
            else:
                size //= 2

    async def search(self, seed: int, steps: int) -> Failure | None:
        """Walk so many steps in all, from seed to seed, until one fails."""
        self.taken = 0
        while self.taken < steps:
            if failure := await self.walk(seed):
                return failure
            seed += 1
        return None


def check(failure: Failure | None) -> None:
    if failure is not None:
        raise Violation(str(failure)) from failure.error
