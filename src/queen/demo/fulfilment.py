"""A workflow of the shop: an order is reserved, charged, approved by hand now and then, and shipped."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Final

from queen.durable import RetryPolicy, Schedules, Worker, WorkflowClient, WorkflowContext, activity, workflow
from queen.durable.provider import Provider

PAUSE: Final = 2.5
APPROVED_ABOVE: Final = 18_000


@activity
async def reserve(order: str) -> str:
    """Put the goods aside."""
    await asyncio.sleep(0.2)
    return f"shelf {hash(order) % 40}"


@activity
async def charge(order: str, cents: int) -> str:
    """Take the money."""
    await asyncio.sleep(0.3)
    if cents % 17 == 0:
        raise RuntimeError(f"the bank does not know card {cents % 10_000:04}")
    return f"receipt of {order} for {cents}"


@activity
async def ship(order: str) -> str:
    """Send it off."""
    await asyncio.sleep(0.25)
    return f"parcel of {order}"


@workflow
async def fulfil(ctx: WorkflowContext, order: str, cents: int) -> str:
    """Reserve, charge, wait for an approval if it is dear, ship."""
    await ctx.activity(reserve, order)
    await ctx.activity(charge, order, cents, retry=RetryPolicy(max_attempts=2))
    if cents > APPROVED_ABOVE:
        await ctx.receive("approval")
    await ctx.sleep(timedelta(seconds=1))
    return await ctx.activity(ship, order)


@workflow
async def nightly_report(ctx: WorkflowContext) -> str:
    """What a schedule starts."""
    return f"report of {ctx.now():%Y-%m-%d %H:%M}"


async def run(provider: Provider, chance: random.Random) -> None:
    """Work on orders, and start one every few seconds."""
    async with Worker(provider, workflows=[fulfil, nightly_report], activities=[reserve, charge, ship]):
        await Schedules(provider).put("nightly", nightly_report, cron="0 4 * * *")
        client = WorkflowClient(provider)
        while True:
            order = f"o-{chance.randrange(10**6):06}"
            await client.start(fulfil, order, 500 + chance.randrange(20_000), id=f"fulfil-{order}")
            await asyncio.sleep(PAUSE)
