"""What waiting costs: next to nothing, however many wait; and what happens when a thousand are due at once."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queen.durable import Provider, Worker, WorkflowClient, WorkflowContext, open_provider, workflow
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.providers.sqlite.provider import SqliteProvider
from queen.durable.testing import eventually


@workflow
async def waits(ctx: WorkflowContext, number: int) -> int:
    """Half wait for an event or a timer, half for a timer alone."""
    if number % 2:
        await ctx.race(ctx.event("go"), ctx.sleep(timedelta(hours=1)))
    else:
        await ctx.sleep(timedelta(hours=2))
    return number


@workflow
async def wakes(ctx: WorkflowContext, moment: datetime) -> str:
    await ctx.sleep_until(moment)
    return ctx.now().isoformat()


async def start_waiting(provider: Provider, count: int) -> None:
    client = WorkflowClient(provider)
    for first in range(0, count, 500):
        await asyncio.gather(*(client.start(waits, n, id=f"w{n}") for n in range(first, min(first + 500, count))))
    await eventually(lambda: _running(provider, count), within=300)


async def _running(provider: Provider, count: int) -> bool:
    return (await provider.get_system_metrics()).running >= count and (await provider.next_due_ms() or 0) > 0


class Statements:
    """How many statements a store runs from now on."""

    def __init__(self, provider: Provider) -> None:
        self.total = 0
        if isinstance(provider, SqliteProvider):
            provider._database._statements.connection.set_trace_callback(self._count)
        elif isinstance(provider, PostgresProvider):
            self._call = provider._database.call
            provider._database.call = self._counted  # type: ignore[method-assign]

    def _count(self, _statement: str) -> None:
        self.total += 1

    async def _counted(self, operation: str, statement: str, *parameters: Any) -> list[Any]:
        self.total += 1
        return await self._call(operation, statement, *parameters)


async def idle_cost(url: str, instances: int, seconds: float) -> tuple[float, float]:
    """Share of a core and statements per second while `instances` wait."""
    async with await open_provider(url) as provider, Worker(provider, workflows=[waits]) as worker:
        await start_waiting(provider, instances)
        await eventually(lambda: worker.is_idle)
        await asyncio.sleep(1)
        statements, begun, cpu = Statements(provider), time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        spent, took = time.process_time() - cpu, time.monotonic() - begun
        return spent / took, statements.total / took


async def test_waiting_instances_cost_next_to_nothing(store_url: str) -> None:
    core, statements = await idle_cost(store_url, instances=200, seconds=3)
    assert core < 0.05
    assert statements <= 4, "a handful of looks, whatever the number of instances"


@pytest.mark.scale
@pytest.mark.timeout(900)
async def test_ten_thousand_waiting_instances_cost_less_than_a_hundredth_of_a_core(store_url: str) -> None:
    core, statements = await idle_cost(store_url, instances=10_000, seconds=30)
    assert core < 0.01, f"{core:.2%} of a core, {statements:.2f} statements/s"
    assert statements <= 2, f"{core:.2%} of a core, {statements:.2f} statements/s"


async def wake_all(url: str, count: int) -> float:
    """Seconds from the moment `count` instances are due until all have ended."""
    async with await open_provider(url) as provider, Worker(provider, workflows=[wakes]):
        client = WorkflowClient(provider)
        moment = datetime.now(UTC) + timedelta(seconds=2 + count / 100)
        handles = await asyncio.gather(*(client.start(wakes, moment) for _ in range(count)))
        assert datetime.now(UTC) < moment, "all of them wait before any is due"
        for handle in handles:
            woken = datetime.fromisoformat(await handle.result(120))
            assert woken >= moment
        return (datetime.now(UTC) - moment).total_seconds()


async def test_many_due_at_once_all_wake(store_url: str) -> None:
    assert await wake_all(store_url, 100) < 5


@pytest.mark.scale
@pytest.mark.timeout(300)
async def test_a_thousand_due_at_once_wake_within_five_seconds(store_url: str) -> None:
    took = await wake_all(store_url, 1000)
    assert took < 5
