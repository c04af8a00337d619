"""Isolation of lanes: one partition held by an open transaction for seconds does not slow the others (I5).

Compared in interleaved rounds with and without the holder, so that a busy machine slows both alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.errors import PartitionBusy
from queen.model import LeaseAck, PopRequest
from tests.support.work import connect, message

LANES = 8
ROUND = 1.0
ROUNDS = 5


@asynccontextmanager
async def held(dsn: str) -> AsyncIterator[None]:
    """A user's transaction that has pushed to one partition and is still open."""
    async with connect(dsn) as holder:
        await holder.execute("begin")
        await holder.fetchval("select queen.push('q', 'held', '0')")
        yield
        await holder.execute("rollback")


async def work(engine: Engine, lane: int, end: float, times: list[float]) -> None:
    """Push, pop and acknowledge on one lane until the time is up, noting how long each cycle takes."""
    number = 0
    while time.perf_counter() < end:
        started = time.perf_counter()
        await engine.push([message(number, partition=f"p{lane}")])
        [popped] = await engine.pop(PopRequest(queue="q", group="g", partition=f"p{lane}"))
        assert popped.lease_id is not None
        await engine.ack_leases(
            [LeaseAck(partition_id=popped.partition_id, lease_id=popped.lease_id, up_to=popped.seq, group="g")]
        )
        times.append(time.perf_counter() - started)
        number += 1


async def knock(engine: Engine, end: float, answers: list[object]) -> None:
    """Push to the held partition, in the same micro-batches as everybody else."""
    while time.perf_counter() < end:
        started = time.perf_counter()
        try:
            answers.append(await engine.push([message(0, partition="held")]))
        except PartitionBusy as busy:
            answers.append(busy)
        assert time.perf_counter() - started < 10, "a caller hangs"


async def round_of(engine: Engine, answers: list[object]) -> float:
    """The 95th percentile of a cycle in one round."""
    times: list[float] = []
    end = time.perf_counter() + ROUND
    await asyncio.gather(*(work(engine, lane, end, times) for lane in range(LANES)), knock(engine, end, answers))
    return statistics.quantiles(times, n=20)[-1]


@pytest.mark.measure
@pytest.mark.timeout(120)
async def test_a_held_partition_does_not_slow_the_others(database: str) -> None:
    options = PoolOptions(size=10, lock_timeout=1.0)
    async with Engine(Database(database, options), listen_url=None) as engine:
        await engine.push([message(0, partition="held"), *(message(0, partition=f"p{lane}") for lane in range(LANES))])
        await engine.register("q", "g")
        while messages := await engine.pop(PopRequest(queue="q", group="g", batch=100, partitions=20)):
            await engine.ack_messages(messages)
        free_answers: list[object] = []
        held_answers: list[object] = []
        await round_of(engine, free_answers)
        free, busy = [], []
        for _ in range(ROUNDS):
            free.append(await round_of(engine, free_answers))
            async with held(database):
                busy.append(await round_of(engine, held_answers))
    without, with_holder = statistics.median(free), statistics.median(busy)
    assert with_holder <= 2 * without or with_holder - without <= 0.002, f"{without:.4f} s -> {with_holder:.4f} s"
    assert not any(isinstance(answer, PartitionBusy) for answer in free_answers)
    assert held_answers
    assert all(isinstance(answer, PartitionBusy) for answer in held_answers)
