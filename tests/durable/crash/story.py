"""The workflow of the crash tests: activities, timers, children, events; every run of an activity leaves a line."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path

from queen.durable import (
    ActivityContext,
    RetryPolicy,
    Worker,
    WorkerSettings,
    WorkflowContext,
    activity,
    open_provider,
    workflow,
)

EFFECTS = "CRASH_EFFECTS"
STEPS = 4
CRASHING = WorkerSettings(
    orchestrator_lock_timeout_ms=2_000, worker_lock_timeout_ms=2_000, session_lock_timeout_ms=2_000, max_attempts=100
)


@activity
async def step(ctx: ActivityContext, number: int) -> str:
    """An effect outside of the store: one line per run, with a token only this run knows."""
    token = uuid.uuid4().hex
    line = f"{ctx.idempotency_key} {number} {token}\n".encode()
    handle = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
    await asyncio.sleep(0.01)
    return token


@activity
def unsteady(ctx: ActivityContext) -> int:
    """Fails at first, on a thread."""
    marker = Path(f"{os.environ[EFFECTS]}.{ctx.instance_id}")
    if not marker.exists():
        marker.touch()
        raise OSError("not yet")
    return 1


@workflow
async def leaf(ctx: WorkflowContext, number: int) -> list[str]:
    """A child with a step and a timer of its own."""
    first = await ctx.activity(step, number)
    await ctx.sleep(timedelta(milliseconds=300))
    return [first]


@workflow
async def journey(ctx: WorkflowContext, number: int) -> list[str]:
    """Everything a workflow can wait for; returns the tokens of the runs whose results it used."""
    used = [await ctx.activity(step, number)]
    await ctx.sleep(timedelta(milliseconds=400))
    used += await ctx.gather(*(ctx.activity(step, number + n) for n in range(1, STEPS)))
    used += await ctx.child(leaf, number + STEPS)
    assert await ctx.event("go", int, buffered=True) == number
    assert await ctx.receive("inbox", int) == number + 1
    await ctx.activity(unsteady, retry=RetryPolicy(max_attempts=5, first_delay=timedelta(milliseconds=10)))
    return used


async def work(url: str) -> None:
    """Work until killed."""
    async with await open_provider(url) as provider:
        worker = Worker(provider, workflows=[journey, leaf], activities=[step, unsteady], settings=CRASHING)
        ready_file(os.getpid()).touch()
        await worker.run()


def ready_file(pid: int) -> Path:
    """Says that a worker is at work."""
    return Path(f"{os.environ[EFFECTS]}.ready.{pid}")


def set_clock(ahead_ms: int) -> None:
    """Let the clock of this process be wrong."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + ahead_ms / 1000
    time.time_ns = lambda: nanoseconds() + ahead_ms * 1_000_000


if __name__ == "__main__":
    set_clock(int(sys.argv[2]))
    asyncio.run(work(sys.argv[1]))
