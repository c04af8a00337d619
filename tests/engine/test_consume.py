"""A consumer works off a queue message by message: each is acknowledged before the next is given."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from queen import errors
from queen.engine import Consumer, Engine, ahead
from queen.model import Message, PopRequest
from tests.support.clock import Clock
from tests.support.work import Sql, dead, lane, numbers, pop, push, runs

REQUEST = PopRequest(queue="q")


async def take(consumer: Consumer) -> Message:
    message = await consumer.next()
    assert message is not None
    return message


async def test_each_message_is_acknowledged_before_the_next_is_given(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(1, 41))
    consumer = engine.consume(REQUEST)
    for number in range(1, 41):
        assert numbers([await take(consumer)]) == [number]
        assert (await lane(sql))["last_consumed_seq"] == number - 1
    assert await consumer.next() is None
    assert (await lane(sql))["last_consumed_seq"] == 40
    assert consumer.lost == 0


async def test_a_quick_consumer_pops_runs_up_to_what_it_may(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(1, 41))
    async with engine.consume(REQUEST, prefetch=4) as consumer:
        assert [number async for message in consumer for number in numbers([message])] == list(range(1, 41))
    found = await runs(sql)
    assert found[0] == 1
    assert max(found) == 4


async def test_a_slow_consumer_pops_one_at_a_time(engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "HOLD", 0.0)
    await push(engine, 1, 2, 3, 4, 5)
    async with engine.consume(REQUEST) as consumer:
        assert [number async for message in consumer for number in numbers([message])] == [1, 2, 3, 4, 5]
    assert await runs(sql) == [1] * 5


async def test_a_run_kept_too_long_goes_back_into_the_line(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, 1, 2, 3, partition="a")
    await push(engine, 1, 2, 3, partition="b")
    consumer = engine.consume(REQUEST)
    given = [await take(consumer) for _ in range(2)]
    assert [(message.partition, *numbers([message])) for message in given] == [("a", 1), ("b", 1)]
    monkeypatch.setattr(ahead, "HOLD", -1.0)
    assert (await take(consumer)).partition == "a"
    row = await lane(sql, partition="b")
    assert (row["last_consumed_seq"], row["lease_id"], row["retry_count"]) == (1, None, 0)
    assert await sql.fetchval("select outcome from queen.deliveries order by ended_at desc limit 1") == "released"


async def test_big_messages_are_popped_few_at_a_time(engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "RUN_BYTES", 20)
    await push(engine, *range(1, 9))
    async with engine.consume(REQUEST) as consumer:
        assert len([message async for message in consumer]) == 8
    assert max(await runs(sql)) == 2


async def test_many_consumers_share_the_work_in_order(engine: Engine, sql: Sql) -> None:
    for partition in "abcd":
        await push(engine, *range(1, 101), partition=partition)
    seen: dict[str, list[int]] = defaultdict(list)

    async def work() -> None:
        async with engine.consume(REQUEST) as consumer:
            async for message in consumer:
                seen[message.partition] += numbers([message])
                await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(8)))
    while left := await pop(engine, 1):  # whoever found nothing went home while others held the rest
        seen[left[0].partition] += numbers(left)
        await engine.ack_messages(left)
    assert seen == {partition: list(range(1, 101)) for partition in "abcd"}


async def test_consumers_of_two_groups_beside_racing_producers(engine: Engine) -> None:
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    total = 2 * 3 * 4 * 50
    count = 0

    async def produce(producer: int) -> None:
        for number in range(50):
            for partition in "abc":
                await push(engine, producer * 1000 + number, partition=partition)

    async def work(group: str) -> None:
        nonlocal count
        async with engine.consume(PopRequest(queue="q", group=group, wait=0.2)) as consumer:
            while count < total:
                if (message := await consumer.next()) is not None:
                    seen[group, message.partition].append(message.seq)
                    await consumer.done()
                    count += 1

    for group in ("one", "two"):
        await engine.register("q", group)
    async with asyncio.timeout(60):
        await asyncio.gather(
            *(produce(producer) for producer in range(4)), *(work(group) for group in ("one", "two") for _ in range(5))
        )
    assert seen == {(group, p): list(range(1, 201)) for group in ("one", "two") for p in "abc"}


async def test_an_error_fails_the_message_at_hand_and_returns_the_rest(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)

    async def work() -> None:
        async with engine.consume(REQUEST) as consumer:
            async for message in consumer:
                if numbers([message]) == [2]:
                    raise ZeroDivisionError("boom")

    with pytest.raises(ZeroDivisionError):
        await work()
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 1, None)
    assert numbers(await pop(engine)) == [2, 3, 4]


async def test_leaving_hands_back_what_was_not_finished(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    async with engine.consume(REQUEST) as consumer:
        async for message in consumer:
            if numbers([message]) == [2]:
                break
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 0, None)
    assert numbers(await pop(engine)) == [2, 3, 4]


async def test_done_acknowledges_without_taking_another(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    async with engine.consume(REQUEST) as consumer:
        async for message in consumer:
            if numbers([message]) == [2]:
                await consumer.done()
                break
    assert numbers(await pop(engine)) == [3, 4]


async def test_whoever_is_cancelled_hands_back_uncounted(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = asyncio.Event()

    async def work() -> None:
        async with engine.consume(REQUEST) as consumer:
            async for _ in consumer:
                got.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await lane(sql))["retry_count"] == 0
    assert numbers(await pop(engine)) == [1, 2, 3]


async def test_a_message_may_fail_and_the_consumer_goes_on(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2, 3, 4)
    seen: list[int] = []
    async with engine.consume(REQUEST) as consumer:
        async for message in consumer:
            seen += numbers([message])
            if seen[-1] == 2:
                await consumer.fail("boom")
            elif seen[-1] == 3:
                assert (await consumer.fail("no", "dlq")).dead_letter
    assert seen == [1, 2, 2, 3, 4]
    assert await dead(sql) == [2, 3]
    assert (await lane(sql))["last_consumed_seq"] == 4


async def test_a_lease_that_ran_out_is_told_and_nothing_is_skipped(engine: Engine, sql: Sql, clock: Clock) -> None:
    await push(engine, *range(1, 8))
    consumer = engine.consume(REQUEST)
    held = [await take(consumer) for _ in range(4)][-1]
    await clock.advance(1000)
    other = await pop(engine, 1)
    assert numbers(other) == numbers([held]) == [4]
    assert await consumer.next() is None
    assert consumer.lost == 1
    await engine.ack_messages(other)
    assert [numbers([await take(consumer)]) for _ in range(3)] == [[5], [6], [7]]


async def test_what_a_consumer_cannot_do(engine: Engine) -> None:
    with pytest.raises(errors.InvalidRequest, match="autoAck"):
        engine.consume(PopRequest(queue="q", auto_ack=True))
    for prefetch in (0, 1001):
        with pytest.raises(errors.InvalidRequest, match="prefetch must be between 1 and 1000"):
            engine.consume(REQUEST, prefetch=prefetch)
    consumer = engine.consume(REQUEST)
    for call in (consumer.done, consumer.fail):
        with pytest.raises(errors.InvalidRequest, match="no message is at hand"):
            await call()
    await consumer.close()
