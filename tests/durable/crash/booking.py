"""Steps in transactions, in a process that kills itself at a point it was told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from queen.durable import CrashPoints, Worker, WorkerSettings, WorkflowContext, open_provider, transaction, workflow

CRASH_AT = "BOOKING_CRASH_AT"
POINTS = tuple(f"{side}.{when}" for side in ("turn", "activity") for when in ("before", "before_ack", "after_ack"))
STEPS = 3
SETTINGS = WorkerSettings(orchestrator_lock_timeout_ms=300, worker_lock_timeout_ms=300, max_attempts=1_000)


@transaction
async def book(connection: Any, order: int, step: int) -> int:
    """One row for each run that counts; nothing keeps a second one out."""
    await connection.execute("insert into bookings (ord, step) values ($1, $2)", order, step)
    return step


@workflow
async def booking(ctx: WorkflowContext, order: int) -> list[int]:
    """Steps one after the other."""
    return [await ctx.activity(book, order, step) for step in range(STEPS)]


class Countdown:
    """Kills the process at the nth time a point is reached."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def work(url: str) -> None:
    """Work until killed."""
    point, _, left = os.environ.get(CRASH_AT, "").partition(" ")
    crash = CrashPoints({point: Countdown(int(left))} if point else {})  # type: ignore[dict-item]
    async with await open_provider(url) as provider:
        await Worker(provider, workflows=[booking], activities=[book], settings=SETTINGS, crash_points=crash).run()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
