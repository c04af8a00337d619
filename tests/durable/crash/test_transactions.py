"""A step in a transaction: wherever its worker dies, what it wrote is there exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys

import pytest

from queen.durable import WorkflowClient, open_provider
from tests.durable.crash.booking import CRASH_AT, POINTS, STEPS, booking
from tests.durable.stores import Address

pytestmark = pytest.mark.chaos
ORDERS = 3


def worker(address: Address, crash_at: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.durable.crash.booking", address.where]
    return subprocess.Popen(command, env={**os.environ, CRASH_AT: crash_at}, stderr=subprocess.DEVNULL)


async def survive(address: Address, crashes: int, seed: int) -> None:
    """Each worker has new orders and what the one before it left, and dies at some point; the last one lives."""
    await address.execute("create table bookings (ord integer, step integer)")
    chance = random.Random(seed)
    async with await open_provider(address.where) as provider:
        client = WorkflowClient(provider)
        for number in range(crashes):
            for order in range(number * ORDERS, (number + 1) * ORDERS):
                await client.start(booking, order, id=f"o{order}")
            dying = worker(address, f"{POINTS[number % len(POINTS)]} {chance.randint(1, ORDERS * (STEPS - 1))}")
            assert await asyncio.to_thread(dying.wait, 60) == -9, "it died where it was told"
        living = worker(address)
        try:
            for order in range(crashes * ORDERS):
                assert await client.handle(booking, f"o{order}").result(60) == list(range(STEPS))
        finally:
            living.kill()
            await asyncio.to_thread(living.wait, 10)
    rows = await address.execute("select ord, step, count(*) from bookings group by ord, step")
    wanted = {(order, step): 1 for order in range(crashes * ORDERS) for step in range(STEPS)}
    assert {(row[0], row[1]): row[2] for row in rows} == wanted


@pytest.mark.timeout(150)
async def test_wherever_a_worker_dies_a_step_counts_once(postgres_address: Address) -> None:
    await survive(postgres_address, crashes=6, seed=7)


@pytest.mark.scale
@pytest.mark.timeout(900)
async def test_a_hundred_deaths_and_each_step_counts_once(postgres_address: Address) -> None:
    await survive(postgres_address, crashes=100, seed=11)
