"""I11: callers share database calls, and one bad apple spoils nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from queen import errors
from queen.db.pool import OutcomeUnknown
from queen.engine import Engine
from queen.engine.batching import SMALLEST, Coalescer
from queen.ids import uuid7
from queen.model import Ack, NewMessage
from tests.support.wait import eventually
from tests.support.work import Sql, acks, message, numbers, pop, push, stored


async def test_whoever_arrives_meanwhile_rides_the_next_call() -> None:
    calls: list[list[int]] = []
    release = asyncio.Event()

    async def call(requests: Sequence[int]) -> list[int]:
        calls.append(list(requests))
        await release.wait()
        return [request * 10 for request in requests]

    coalescer = Coalescer(call, limit=4)
    first = asyncio.create_task(coalescer.submit(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(coalescer.submit(n)) for n in range(2, 9)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(first, *rest) == [n * 10 for n in range(1, 9)]
    assert [len(batch) for batch in calls] == [1, 4, 3]
    assert (coalescer.sizes.calls, coalescer.sizes.requests, coalescer.sizes.largest) == (3, 8, 4)


async def test_a_crowd_falls_into_as_many_calls_as_may_be_under_way() -> None:
    calls: list[int] = []
    release = asyncio.Event()

    async def call(requests: Sequence[int]) -> Sequence[int]:
        calls.append(len(requests))
        await release.wait()
        return requests

    coalescer = Coalescer(call, calls=2)
    first = [asyncio.create_task(coalescer.submit(n)) for n in range(2 * SMALLEST + 10)]
    await eventually(lambda: len(calls) == 2)
    late = asyncio.create_task(coalescer.submit(-1))
    release.set()
    assert await asyncio.gather(*first, late) == [*range(2 * SMALLEST + 10), -1]
    assert calls == [SMALLEST + 5, SMALLEST + 5, 1]
    await coalescer.drain()
    assert not coalescer.busy


async def test_a_small_crowd_stays_together() -> None:
    calls: list[int] = []

    async def call(requests: Sequence[int]) -> Sequence[int]:
        calls.append(len(requests))
        return requests

    coalescer = Coalescer(call, calls=2)
    await asyncio.gather(*(coalescer.submit(n) for n in range(SMALLEST)))
    assert calls == [SMALLEST]


async def test_whoever_waited_long_enough_is_told_and_the_others_go_on() -> None:
    release = asyncio.Event()

    async def call(requests: Sequence[int]) -> Sequence[int]:
        await release.wait()
        return requests

    coalescer = Coalescer(call)
    now = asyncio.get_running_loop().time()
    patient = asyncio.create_task(coalescer.submit(1, until=now + 60))
    with pytest.raises(TimeoutError):
        await coalescer.submit(2, until=now + 0.02)
    with pytest.raises(TimeoutError):
        await coalescer.submit(3, until=now - 1)
    release.set()
    assert await patient == 1


async def test_weight_limits_a_call_and_one_heavy_request_goes_alone() -> None:
    calls: list[int] = []

    async def call(requests: Sequence[int]) -> list[int]:
        calls.append(len(requests))
        return list(requests)

    coalescer = Coalescer(call, limit=10)
    await asyncio.gather(*[coalescer.submit(weight, weight=weight) for weight in (50, 6, 4, 5, 6)])
    assert calls == [1, 2, 1, 1]


async def test_a_call_that_fails_as_a_whole_is_tried_in_halves() -> None:
    calls = 0

    async def call(requests: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        if 3 in requests:
            raise ValueError("three")
        return list(requests)

    coalescer = Coalescer(call)
    answers = await asyncio.gather(*[coalescer.submit(n) for n in range(128)], return_exceptions=True)
    assert [a for a in answers if not isinstance(a, Exception)] == [n for n in range(128) if n != 3]
    assert isinstance(answers[3], ValueError)
    assert calls == 15


async def test_an_unknown_outcome_is_not_tried_again_for_the_callers() -> None:
    calls = 0

    async def call(requests: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        raise OutcomeUnknown("gone")

    coalescer = Coalescer(call)
    answers = await asyncio.gather(*[coalescer.submit(n) for n in range(6)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 6
    assert calls == 1


async def test_a_cancelled_caller_is_left_out() -> None:
    seen: list[int] = []

    async def call(requests: Sequence[int]) -> list[int]:
        seen.extend(requests)
        return list(requests)

    coalescer = Coalescer(call)
    tasks = [asyncio.create_task(coalescer.submit(n)) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert seen == [0, 2]


async def test_concurrent_pushes_share_calls(engine: Engine) -> None:
    await push(engine, 0)
    await asyncio.gather(*[push(engine, n, partition="p") for n in range(200)])
    sizes = engine.batch_sizes["push"]
    assert max(size.largest for size in sizes) > 50
    assert sum(size.calls for size in sizes) < 50


async def test_one_bad_payload_fails_alone(engine: Engine, sql: Sql) -> None:
    await push(engine, 0)
    bad = NewMessage(queue="q", partition="p", payload="{")
    answers = await asyncio.gather(
        *[engine.push([bad if n == 7 else message(n)]) for n in range(20)], return_exceptions=True
    )
    assert isinstance(answers[7], errors.InvalidRequest)
    assert len([a for a in answers if isinstance(a, list)]) == 19
    assert sorted(n for _, n in await stored(sql)) == [0, *[n for n in range(20) if n != 7]]


async def test_a_payload_that_cannot_be_stored_costs_the_others_nothing(engine: Engine) -> None:
    await push(engine, 0)
    before = sum(sizes.calls for sizes in engine.batch_sizes["push"])
    bad = NewMessage(queue="q", partition="p", payload='"\\u0000"')
    fine = NewMessage(queue="q", partition="p", payload='"\\\\u0000 is only text"')
    answers = await asyncio.gather(
        *[engine.push([bad if n == 7 else fine if n == 8 else message(n)]) for n in range(128)], return_exceptions=True
    )
    assert [n for n, answer in enumerate(answers) if isinstance(answer, errors.InvalidRequest)] == [7]
    assert sum(sizes.calls for sizes in engine.batch_sizes["push"]) - before <= 2


async def test_the_same_transaction_id_from_two_callers(engine: Engine, sql: Sql) -> None:
    await push(engine, 0)
    answers = await asyncio.gather(*[push(engine, n, transaction_id="same") for n in range(10)])
    assert sorted(p.status for (p,) in answers) == ["duplicate"] * 9 + ["queued"]
    assert len({p.id for (p,) in answers}) == 1
    assert len(await stored(sql)) == 2


async def test_one_stale_ack_fails_alone(engine: Engine) -> None:
    for partition in "abcdef":
        await push(engine, 1, partition=partition)
    got = await pop(engine, 6, partitions=6)
    stale = Ack(partition_id=got[3].partition_id, transaction_id=got[3].transaction_id, lease_id=uuid7())
    calls = [engine.ack([stale]) if n == 3 else engine.ack(acks([m])) for n, m in enumerate(got)]
    verdicts = [outcome.verdict for (outcome,) in await asyncio.gather(*calls)]
    assert verdicts == ["acked", "acked", "acked", "lost", "acked", "acked"]


async def test_pops_of_one_call_get_different_partitions(engine: Engine) -> None:
    await engine.push([message(n, partition=str(n)) for n in range(30)])
    found = await asyncio.gather(*[pop(engine, 1) for _ in range(30)])
    assert sorted(numbers([m for batch in found for m in batch])) == list(range(30))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 500])
async def test_calls_of_every_size_keep_their_order(engine: Engine, count: int) -> None:
    await asyncio.gather(*[push(engine, *range(k * 1000, k * 1000 + count)) for k in range(4)])
    got = await pop(engine, 4 * count)
    assert len(got) == 4 * count
    for k in range(4):
        own = [n for n in numbers(got) if n // 1000 == k]
        assert own == sorted(own)
