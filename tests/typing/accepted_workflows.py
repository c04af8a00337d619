"""A typed application of workflows, as its author would write it: every line is accepted."""

from __future__ import annotations

from typing import Any

from queen.durable import (
    ActivityContext,
    Limit,
    Provider,
    SyncWorkflowClient,
    Worker,
    WorkflowClient,
    WorkflowContext,
    WorkflowHandle,
    activity,
    transaction,
    workflow,
)


@activity
async def charge(card: str, cents: int = 100, currency: str = "EUR") -> str:
    return f"{card} {cents} {currency}"


@activity(name="mail", limit=Limit(rate=10))
def send(ctx: ActivityContext, address: str) -> bool:
    return ctx.attempt == 1 and bool(address)


@transaction
async def book(connection: Any, order: str, cents: int = 1) -> int:
    found: int = await connection.fetchval("select 1")
    return found


@workflow
async def child(ctx: WorkflowContext, number: int, word: str = "x") -> int:
    return number


@workflow(version="2.0.0", limit=Limit(concurrency=3, key=lambda card, cents=100: card))
async def checkout(ctx: WorkflowContext, card: str, cents: int = 100) -> str:
    first: str = await ctx.activity(charge, card)
    second: str = await ctx.activity(charge, card, cents, priority=3)
    third: str = await ctx.activity(charge, card, currency="USD")
    fourth: str = await ctx.activity(charge, card, cents, "CHF")
    mailed: bool = await ctx.activity(send, "a@b.c")
    booked: int = await ctx.activity(book, card)
    counted: int = await ctx.child(child, 3, id="c") + await ctx.child(child, 3, "y") + await ctx.child(child, number=3)
    ctx.start(child, 3, id="detached")
    return f"{first}{second}{third}{fourth}{mailed}{booked}{counted}"


async def main(provider: Provider) -> str:
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[checkout, child], activities=[charge, send, book]):
        handle: WorkflowHandle[str] = await client.start(checkout, "4242", id="o-1")
        await client.start(checkout, "4242", 7, delay=3)
        await client.start(checkout, card="4242", cents=7, id="o-2")
        return await handle.result()


def synchronous(client: SyncWorkflowClient) -> str:
    client.start(checkout, card="4242")
    return client.start(checkout, "4242", id="o-3").result()
