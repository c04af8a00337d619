"""R11: a limited queue never overshoots, and never refuses while there is room."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from queen import errors
from queen.engine import Engine
from tests.support.wait import eventually
from tests.support.work import Sql, connect, message, numbers, pop, push

DEPTH = "select current_depth::int from queen.queue_depths where queue_name = 'q'"


@pytest.fixture
async def other(database: str) -> AsyncIterator[Engine]:
    """A second process's engine."""
    async with Engine.connect(database) as opened:
        yield opened


async def test_full_is_refused_with_figures_and_stores_nothing(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 10})
    await push(engine, *range(8))
    with pytest.raises(errors.QueueFull) as refused:
        await push(engine, 8, 9, 10)
    assert refused.value.code == "QUEUE_FULL"
    assert refused.value.figures == {"queue": "q", "depth": 8, "limit": 10}
    assert await sql.fetchval(DEPTH) == 8
    await push(engine, 8, 9)
    with pytest.raises(errors.QueueFull):
        await push(engine, 10)


async def test_the_depth_is_that_of_the_slowest_group(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 3})
    for group in ("fast", "slow"):
        await engine.register("q", group)
    await push(engine, 1, 2, 3)
    await engine.ack_messages(await pop(engine, group="fast"))
    with pytest.raises(errors.QueueFull):
        await push(engine, 4)
    await engine.ack_messages(await pop(engine, 1, group="slow"))
    await push(engine, 4)
    assert await sql.fetchval(DEPTH) == 3


async def test_a_call_over_several_queues_is_all_or_nothing(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 1})
    await push(engine, 1)
    with pytest.raises(errors.QueueFull):
        await engine.push([message(1, "free"), message(2)])
    assert await pop(engine, queue="free") == []


async def test_a_full_queue_refuses_only_its_callers(engine: Engine) -> None:
    """I11: in one micro-batch."""
    await engine.queues.configure("q", {"max_queue_size": 5})
    answers = await asyncio.gather(
        *[push(engine, n, queue="q" if n % 2 else "free", partition=str(n % 3)) for n in range(30)],
        return_exceptions=True,
    )
    assert sum(isinstance(a, errors.QueueFull) for a in answers[1::2]) == 10
    assert all(isinstance(a, list) for a in answers[::2])


async def test_a_rolled_back_push_gives_its_room_back(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 2})
    for _ in range(5):
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute("select queen.push('q', 'p', '1'), queen.push('q', 'p', '2')")
        with pytest.raises(asyncpg.PostgresError):
            await sql.execute("select queen.push('q', 'p', '3')")
        await transaction.rollback()
    await push(engine, 1, 2)
    assert await sql.fetchval(DEPTH) == 2


async def test_duplicates_do_not_use_up_room(engine: Engine) -> None:
    await engine.queues.configure("q", {"max_queue_size": 2})
    await push(engine, 1, transaction_id="t")
    for _ in range(20):
        assert (await push(engine, 1, transaction_id="t"))[0].status == "duplicate"
    assert (await push(engine, 2))[0].status == "queued"


@pytest.mark.parametrize("careful", [False, True])
async def test_a_duplicate_is_answered_though_the_queue_is_full(engine: Engine, sql: Sql, careful: bool) -> None:
    await engine.queues.configure("q", {"max_queue_size": 2})
    first = await engine.push([message(1, transaction_id="t"), message(2)])
    with pytest.raises(errors.QueueFull):
        await push(engine, 3)
    again = [message(1, transaction_id="t", id=first[0].id), message(2, id=first[1].id)]
    answers = await engine.push(again if careful else again[:1], careful=careful)
    assert [(one.status, one.id) for one in answers] == [("duplicate", one.id) for one in first[: len(answers)]]
    with pytest.raises(errors.QueueFull):
        await engine.push([message(1, transaction_id="t"), message(3)], careful=careful)
    assert await sql.fetchval(DEPTH) == 2


async def test_what_is_for_later_needs_no_room_yet(engine: Engine) -> None:
    await engine.queues.configure("q", {"max_queue_size": 2})
    later = datetime.now(UTC) + timedelta(hours=1)
    assert {one.status for one in await push(engine, *range(5), deliver_at=later)} == {"scheduled"}
    await push(engine, 1, 2)
    assert (await push(engine, 3, deliver_at=later))[0].status == "scheduled"


@pytest.mark.parametrize("mode", ["all", "new"])
async def test_a_group_counts_from_its_registration_on(engine: Engine, sql: Sql, mode: str) -> None:
    """Also before it has a cursor in every partition."""
    await engine.queues.configure("q", {"max_queue_size": 100})
    await engine.register("q", "fast")
    for partition in range(10):
        await push(engine, *range(10), partition=str(partition))
    await engine.ack_messages(await pop(engine, 100, partitions=10, group="fast"))
    await sql.execute("select queen.subscribe('q', 'late', $1, null)", mode)
    if mode == "all":
        with pytest.raises(errors.QueueFull):
            await push(engine, 1)
        return
    for partition in range(10):
        await push(engine, *range(10), partition=str(partition))
        await engine.ack_messages(await pop(engine, 100, partitions=10, group="fast"))
    with pytest.raises(errors.QueueFull) as refused:
        await push(engine, 1)
    assert refused.value.figures["depth"] == 100
    await engine.register("q", "late")
    assert len(await pop(engine, 1000, partitions=10, group="late")) == 100


async def test_a_push_counts_only_when_the_credit_is_used_up(engine: Engine, sql: Sql) -> None:
    """However thinly it is spread over the slots."""
    await engine.queues.configure("q", {"max_queue_size": 200})
    await push(engine, 0)
    await sql.execute(
        "create or replace function queen.queue_depth(p_queue_id bigint) returns bigint language plpgsql as"
        " $$ begin raise exception 'counted'; end $$"
    )
    for number in range(9):
        await push(engine, *range(20), partition=str(number))
    await push(engine, *range(18))
    with pytest.raises(errors.InternalError, match="counted"):
        await push(engine, 1, 2)


async def test_groups_that_come_and_go_beside_pushes(engine: Engine, other: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_queue_size": 300})
    await engine.register("q", "always")
    stop = asyncio.Event()

    async def produce(side: Engine, name: int) -> None:
        while not stop.is_set():
            with suppress(errors.QueueFull):
                await push(side, *range(7), partition=str(name))

    async def consume(side: Engine) -> None:
        while not stop.is_set():
            await side.ack_messages(await pop(side, 50, partitions=5, group="always"))

    async def come_and_go() -> None:
        for number in range(12):
            await sql.execute("select queen.subscribe('q', $1, 'new', null)", f"g{number}")
            for _ in range(5):
                assert await sql.fetchval("select queen.queue_depth(id) from queen.queues where name = 'q'") <= 300
            await engine.register("q", f"g{number}")
            assert await sql.fetchval(DEPTH) <= 300
            await engine.queues.forget_group(f"g{number}", "q")
        stop.set()

    await asyncio.gather(come_and_go(), *[produce([engine, other][n % 2], n) for n in range(4)], consume(other))


async def test_a_limited_queue_someone_holds_does_not_delay_other_queues(engine: Engine, database: str) -> None:
    """I5: an open transaction on a limited queue, in the same micro-batches."""
    await engine.queues.configure("q", {"max_queue_size": 20})
    await push(engine, 1, queue="free")
    async with connect(database) as user, user.transaction():
        await user.execute("select queen.push('q', 'held', '1')")
        waiting = asyncio.create_task(push(engine, *range(19)))
        for number in range(20):
            await asyncio.wait_for(push(engine, number, queue="free"), 20)
    assert len(await asyncio.wait_for(waiting, 10)) == 19


async def test_lowering_and_lifting_the_limit(engine: Engine) -> None:
    await engine.queues.configure("q", {"max_queue_size": 10})
    await push(engine, *range(8))
    await engine.queues.configure("q", {"max_queue_size": 5})
    with pytest.raises(errors.QueueFull):
        await push(engine, 9)
    await engine.queues.configure("q", {"max_queue_size": 0})
    await push(engine, *range(50))


async def test_a_seek_back_counts(engine: Engine) -> None:
    await engine.queues.configure("q", {"max_queue_size": 4})
    await push(engine, 1, 2, 3, 4)
    await engine.ack_messages(await pop(engine))
    await push(engine, 5)
    await engine.queues.seek("q", "__QUEUE_MODE__", "start")
    with pytest.raises(errors.QueueFull):
        await push(engine, 6)


async def test_racing_producers_and_slow_consumers(engine: Engine, other: Engine, sql: Sql) -> None:
    """10 000 messages through a queue of 500: never over, never refused while there is room."""
    await engine.queues.configure("q", {"max_queue_size": 500})
    todo = iter(range(10_000))
    stored = 0
    popped: list[int] = []
    refusals: list[tuple[int, int]] = []
    rng = random.Random(7)

    async def produce(side: Engine, name: int) -> None:
        nonlocal stored
        for number in todo:
            batch = [number, *[n for _, n in zip(range(rng.choice([0, 4, 40])), todo, strict=False)]]
            while True:
                before = len(popped)
                try:
                    await push(side, *batch, partition=str(name % 4))
                    stored += len(batch)
                    break
                except errors.QueueFull as full:
                    refusals.append((full.figures["depth"], len(batch)))
                await eventually(lambda: len(popped) != before or len(popped) == stored)  # noqa: B023 - awaited at once

    async def consume(side: Engine) -> None:
        await eventually(lambda: bool(refusals))  # slower than the producers for as long as it takes to fill the queue
        while len(popped) < 10_000:
            got = await pop(side, 50, wait=1)
            await side.ack_messages(got)
            popped.extend(numbers(got))

    async def watch() -> int:
        worst = 0
        while len(popped) < 10_000:
            worst = max(worst, await sql.fetchval(DEPTH))
            await asyncio.sleep(0.003)
        return worst

    sides = [engine, other]
    worst, *_ = await asyncio.wait_for(
        asyncio.gather(
            watch(), *[produce(sides[n % 2], n) for n in range(8)], *[consume(sides[n % 2]) for n in range(2)]
        ),
        100,
    )
    assert sorted(popped) == list(range(10_000))
    assert worst is not None
    assert 0 < worst <= 500
    assert refusals
    assert [depth for depth, size in refusals if not 500 - size < depth <= 500] == []


async def test_with_room_nobody_is_refused(engine: Engine, other: Engine) -> None:
    """As many messages as fit, from eight producers at once: every one is taken, and not one more."""
    await engine.queues.configure("q", {"max_queue_size": 400})
    sides = [engine, other]
    await asyncio.gather(*[push(sides[n % 2], n, partition=str(n % 7)) for n in range(400)])
    answers = await asyncio.gather(
        *[push(sides[n % 2], n, partition=str(n % 7)) for n in range(40)], return_exceptions=True
    )
    assert all(isinstance(answer, errors.QueueFull) for answer in answers)


async def test_a_push_says_how_full_the_queue_is(engine: Engine) -> None:
    await engine.queues.configure("q", {"max_queue_size": 10})
    assert [(one.depth, one.remaining) for one in await push(engine, 1, 2, 3)] == [(3, 7)] * 3
    await engine.ack_messages(await pop(engine, 2))
    [pushed] = await push(engine, 4, partition="other", transaction_id="t")
    assert (pushed.depth, pushed.remaining) == (2, 8)
    [again] = await push(engine, 4, partition="other", transaction_id="t")
    assert (again.status, again.depth, again.remaining) == ("duplicate", 2, 8)
    await engine.ack_messages(await pop(engine, 1))
    [more] = await push(engine, 5)
    assert (more.depth, more.remaining) == (3, 7), "not less than there are: while there is credit nobody counts"
    assert [(one.depth, one.remaining) for one in await push(engine, *range(8))] == [(10, 0)] * 8, "counted"
    [unlimited] = await push(engine, 5, queue="free")
    assert (unlimited.depth, unlimited.remaining) == (None, None)
