"""Workflows: activities, timers, children and events, on workers that are killed; every run of a step leaves a line."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from datetime import timedelta
from pathlib import Path

from queen.durable import (
    ActivityContext,
    RetryPolicy,
    Worker,
    WorkerSettings,
    WorkflowClient,
    WorkflowContext,
    activity,
    open_provider,
    workflow,
)
from queen.durable.provider import ProviderError
from torture.actor import TROUBLE, Actor
from torture.history import History

EFFECTS = "TORTURE_EFFECTS"
STEPS = 4
SETTINGS = WorkerSettings(
    orchestrator_lock_timeout_ms=2_000, worker_lock_timeout_ms=2_000, session_lock_timeout_ms=2_000, max_attempts=1_000
)


@activity
async def step(ctx: ActivityContext, number: int) -> str:
    """An effect outside of the store, with a token that only this run knows."""
    token = uuid.uuid4().hex
    History(Path(os.environ[EFFECTS])).note("effect", ctx.instance_id, ctx.idempotency_key, token)
    await asyncio.sleep(0.01)
    if number % 7 == 3 and token[0] in "01234":
        raise OSError("not this time")
    return token


@workflow
async def leaf(ctx: WorkflowContext, number: int) -> list[str]:
    """A child with a step and a timer of its own."""
    first = await ctx.activity(step, number, retry=RetryPolicy(max_attempts=50, first_delay=timedelta(milliseconds=10)))
    await ctx.sleep(timedelta(milliseconds=200))
    return [first]


@workflow
async def journey(ctx: WorkflowContext, number: int) -> list[str]:
    """Everything a workflow can wait for; returns the tokens of the runs whose results it used."""
    again = RetryPolicy(max_attempts=50, first_delay=timedelta(milliseconds=10))
    used = [await ctx.activity(step, number, retry=again)]
    await ctx.sleep(timedelta(milliseconds=300))
    used += await ctx.gather(*(ctx.activity(step, number + n, retry=again) for n in range(1, STEPS - 1)))
    used += await ctx.child(leaf, number + STEPS)
    await ctx.event("go", int, buffered=True)
    return used


class Starter(Actor):
    """Starts instances and sends each of them its event, again until that was accepted."""

    async def run(self) -> None:
        """Start until the run ends."""
        count = 0
        while self.running:
            try:
                async with await open_provider(self.context.database) as provider:
                    client = WorkflowClient(provider)
                    while self.running:
                        await self._start(client, f"w-{self.name}-{count}", count)
                        count += 1
                        await self.pause(0.3, 1.2)
            except (*TROUBLE, ProviderError):
                await self.pause(0.1, 0.3)

    async def _start(self, client: WorkflowClient, name: str, number: int) -> None:
        handle = await client.start(journey, number, id=name)
        while self.consuming:
            try:
                await handle.raise_event("go", number)
                self.history.note("started", name)
                return
            except (*TROUBLE, ProviderError):
                await self.pause(0.1, 0.3)


async def work(url: str) -> None:
    """Work until killed; a store that is away is waited for."""
    while True:
        try:
            async with await open_provider(url) as provider:
                await Worker(provider, workflows=[journey, leaf], activities=[step], settings=SETTINGS).run()
                return
        except (*TROUBLE, ProviderError):
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
