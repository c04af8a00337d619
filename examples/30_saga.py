"""A saga: charge, reserve, ship - and take it all back when a step fails. Survives kill -9 in the middle.

    python examples/30_saga.py

Starts a worker in a process of its own, three orders, kills the worker half-way, starts another one, and
prints what happened to whom. Give a store to use another one than a SQLite file in a temporary directory:

    python examples/30_saga.py --store postgresql://user@host/database
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from queen.durable import (
    ActivityContext,
    ActivityFailed,
    RetryPolicy,
    Worker,
    WorkerSettings,
    WorkflowClient,
    WorkflowContext,
    activity,
    open_provider,
    workflow,
)
from queen.durable.testing import eventually


@dataclass(frozen=True)
class Order:
    """What somebody wants."""

    id: str
    cents: int
    address: str


class Ledger:
    """The outside world: one file per effect, so that doing a thing twice under one key is doing it once."""

    def __init__(self) -> None:
        self._directory = Path(os.environ["SAGA_LEDGER"])

    def write(self, key: str, entry: str) -> None:
        """Note an effect under the key of the activity that causes it."""
        (self._directory / key.replace(":", "_")).write_text(entry)

    def entries(self) -> list[str]:
        """Everything that happened, sorted."""
        return sorted(each.read_text() for each in self._directory.iterdir())


@activity
async def charge(ctx: ActivityContext, order: Order) -> str:
    """Take the money."""
    Ledger().write(ctx.idempotency_key, f"{order.id} charged {order.cents}")
    await asyncio.sleep(0.2)
    return f"payment-{order.id}"


@activity
async def refund(ctx: ActivityContext, payment: str, cents: int) -> None:
    """Give the money back."""
    Ledger().write(ctx.idempotency_key, f"{payment.removeprefix('payment-')} refunded {cents}")


@activity
async def reserve(ctx: ActivityContext, order: Order) -> str:
    """Put the goods aside."""
    Ledger().write(ctx.idempotency_key, f"{order.id} reserved")
    await asyncio.sleep(0.2)
    return f"shelf-{order.id}"


@activity
async def release(ctx: ActivityContext, shelf: str) -> None:
    """Put the goods back."""
    Ledger().write(ctx.idempotency_key, f"{shelf.removeprefix('shelf-')} released")


@activity
def ship(ctx: ActivityContext, order: Order) -> str:
    """Send the goods; nobody delivers to the moon."""
    if order.address == "moon":
        raise ValueError("no such place")
    Ledger().write(ctx.idempotency_key, f"{order.id} shipped to {order.address}")
    return f"parcel-{order.id}"


@workflow
async def checkout(ctx: WorkflowContext, order: Order) -> str:
    """Each step that succeeded is undone, in reverse order, when a later one fails for good."""
    undo: list[Callable[[], Awaitable[None]]] = []
    patience = RetryPolicy(max_attempts=3, first_delay=timedelta(milliseconds=50))
    try:
        payment = await ctx.activity(charge, order, retry=patience)
        undo.append(lambda: ctx.activity(refund, payment, order.cents, retry=patience))
        shelf = await ctx.activity(reserve, order, retry=patience)
        undo.append(lambda: ctx.activity(release, shelf, retry=patience))
        ctx.status = "packing"
        await ctx.sleep(timedelta(milliseconds=200))
        return await ctx.activity(ship, order, retry=patience)
    except ActivityFailed as failure:
        for take_back in reversed(undo):
            await take_back()
        return f"taken back: {failure}"


async def work(store: str) -> None:
    """A worker, until it is told to stop, or killed."""
    settings = WorkerSettings(orchestrator_lock_timeout_ms=1_000, worker_lock_timeout_ms=1_000)
    async with await open_provider(store) as provider:
        activities = [charge, refund, reserve, release, ship]
        await Worker(provider, workflows=[checkout], activities=activities, settings=settings).run()


def hire(store: str) -> subprocess.Popen[bytes]:
    """A worker process."""
    return subprocess.Popen([sys.executable, __file__, "--work", "--store", store])


async def demonstrate(store: str) -> None:
    """Start orders, kill the worker once something has happened, and let another one finish."""
    orders = [Order("ann", 100, "paris"), Order("bob", 200, "moon"), Order("cem", 300, "izmir")]
    async with await open_provider(store) as provider:
        client = WorkflowClient(provider)
        handles = [await client.start(checkout, order, id=f"order-{order.id}") for order in orders]
        worker = hire(store)
        await eventually(Ledger().entries, within=60)
        worker.kill()
        worker.wait(10)
        print(f"killed the worker after {len(Ledger().entries())} effects")
        worker = hire(store)
        try:
            for order, handle in zip(orders, handles, strict=True):
                print(f"{order.id}: {await handle.result(60)}")
        finally:
            worker.terminate()
            worker.wait(10)
    print(*Ledger().entries(), sep="\n")


def main() -> None:
    """Run the demonstration, or be one of its workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="where workflows are kept; default: a SQLite file")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(given.store))
        return
    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "ledger"
        ledger.mkdir()
        os.environ["SAGA_LEDGER"] = str(ledger)
        asyncio.run(demonstrate(given.store or str(Path(directory) / "saga.db")))


if __name__ == "__main__":
    main()
