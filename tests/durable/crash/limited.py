"""Limited work for several processes: every run leaves a line when it begins and one when it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from queen.durable import (
    ActivityContext,
    Limit,
    Worker,
    WorkerSettings,
    WorkflowContext,
    activity,
    open_provider,
    workflow,
)

LOG = "LIMITED_LOG"
AT_ONCE = 3
PER_KEY = 2
KEYS = 4
SETTINGS = WorkerSettings(orchestrator_lock_timeout_ms=2_000, worker_lock_timeout_ms=2_000, max_attempts=100)


def note(group: str, what: str, run: str) -> None:
    """Append a line: one write, so that lines of several processes do not mix."""
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, f"{time.monotonic_ns()} {os.getpid()} {group} {what} {run}\n".encode())
    finally:
        os.close(handle)


@activity(limit=Limit(concurrency=AT_ONCE))
async def guarded(ctx: ActivityContext, number: int) -> int:
    """At most `AT_ONCE` of these at any moment, in all processes."""
    run = f"{ctx.instance_id}/{ctx.attempt}"
    note("activity", "begin", run)
    await asyncio.sleep(0.005)
    note("activity", "end", run)
    return number


@workflow(limit=Limit(concurrency=PER_KEY, key=lambda number: number % KEYS))
async def keyed(ctx: WorkflowContext, number: int) -> int:
    """At most `PER_KEY` of these for each key."""
    await ctx.activity(enter, number, "begin")
    result = await ctx.activity(guarded, number)
    await ctx.activity(enter, number, "end")
    return result


@activity
async def enter(ctx: ActivityContext, number: int, what: str) -> None:
    """Say where a workflow is; the first to say so counts."""
    note(f"key-{number % KEYS}", what, ctx.instance_id)


async def work(url: str) -> None:
    """Work until killed."""
    async with await open_provider(url) as provider:
        await Worker(provider, workflows=[keyed], activities=[guarded, enter], settings=SETTINGS).run()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
