"""A budget of bytes for a pop: as many messages as fit, always one, and what does not fit was never popped."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from queen import errors
from queen.engine import Engine
from queen.model import NewMessage, PopRequest
from tests.support.work import Sql

LARGE = "x" * 100_000


async def push(engine: Engine, *payloads: Any, partition: str = "p") -> None:
    await engine.push([NewMessage(queue="q", partition=partition, payload=json.dumps(each)) for each in payloads])


async def sizes(engine: Engine, max_bytes: int, batch: int = 100, **options: Any) -> list[int]:
    messages = await engine.pop(PopRequest(queue="q", batch=batch, max_bytes=max_bytes, **options))
    await engine.release(list({message.lease_id for message in messages if message.lease_id is not None}))
    return [len(message.payload) for message in messages]


@pytest.mark.parametrize(
    ("budget", "count"), [(1, 1), (100_001, 1), (200_003, 1), (200_004, 2), (300_006, 3), (2**31 - 1, 5)]
)
async def test_as_many_as_fit_and_always_one(engine: Engine, budget: int, count: int) -> None:
    await push(engine, *[LARGE] * 5)
    assert await sizes(engine, budget) == [100_002] * count


async def test_what_does_not_fit_was_never_popped(engine: Engine, sql: Sql) -> None:
    await push(engine, LARGE, LARGE, LARGE)
    messages = await engine.pop(PopRequest(queue="q", batch=3, max_bytes=200_004))
    assert [message.seq for message in messages] == [1, 2]
    row = await sql.fetchrow("select batch_to, counted_to, total_messages_delivered from queen.partition_consumers")
    assert row is not None
    assert tuple(row) == (2, 2, 2)
    assert messages[0].lease_id is not None
    await engine.release([messages[0].lease_id])
    assert [message.seq for message in await engine.pop(PopRequest(queue="q", batch=3))] == [1, 2, 3]


async def test_the_budget_is_over_all_partitions_of_a_pop(engine: Engine, sql: Sql) -> None:
    for name in "abcd":
        await push(engine, LARGE, 1, partition=name)
    messages = await engine.pop(PopRequest(queue="q", batch=100, partitions=4, max_bytes=250_000))
    assert [(message.partition, message.seq) for message in messages] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    others = await engine.pop(PopRequest(queue="q", batch=100, partitions=4, max_bytes=2**30))
    assert [(message.partition, message.seq) for message in others] == [("c", 1), ("c", 2), ("d", 1), ("d", 2)]
    assert await sql.fetchval("select sum(total_messages_delivered) from queen.partition_consumers") == 8


async def test_what_is_handed_out_for_good_is_what_came(engine: Engine) -> None:
    await push(engine, LARGE, LARGE, LARGE)
    for _ in range(3):
        messages = await engine.pop(PopRequest(queue="q", batch=3, max_bytes=1000, auto_ack=True))
        assert len(messages) == 1
    assert await engine.pop(PopRequest(queue="q", batch=3)) == []


async def test_small_batches_and_odd_ones_alike(engine: Engine) -> None:
    """Whatever the payloads, small, compressed or swelling when written out: the largest prefix that fits."""
    chance = random.Random(7)
    for number in range(30):
        name = f"p{number}"
        payloads: list[Any] = []
        for _ in range(chance.randrange(1, 20)):
            much = chance.randrange(9000)
            payloads.append(chance.choice([much, "y" * much, [1e300] * (much // 100)]))
        await push(engine, *payloads, partition=name)
        whole = await sizes(engine, 2**31 - 1, partition=name)
        budget = chance.randrange(1, 30_000)
        fitting = max((n for n in range(1, len(whole) + 1) if sum(whole[:n]) <= budget), default=1)
        assert await sizes(engine, budget, partition=name) == whole[:fitting]


@pytest.mark.parametrize("budget", [0, -1, 2**31])
async def test_no_budget_that_makes_no_sense(engine: Engine, budget: int) -> None:
    with pytest.raises(errors.InvalidRequest, match="maxBytes must be between 1 and 2147483647"):
        await engine.pop(PopRequest(queue="q", max_bytes=budget))
