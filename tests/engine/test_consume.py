"""A consumer works off a queue message by message: each is acknowledged before the next is given."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from queen import errors
from queen.engine import Consumer, Engine
from queen.engine import consume as consuming
from queen.model import Message, NewMessage, PopRequest
from tests.support.clock import Clock
from tests.support.work import Sql, dead, lane, leased, numbers, pop, push, runs

REQUEST = PopRequest(queue="q")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, nothing goes back by itself."""
    monkeypatch.setattr(consuming, "HOLD", 600.0)


async def take(consumer: Consumer) -> Message:
    message = await consumer.next()
    assert message is not None
    return message


@pytest.mark.parametrize("prefetch", [1, 7])
async def test_each_message_is_acknowledged_before_the_next_is_given(engine: Engine, sql: Sql, prefetch: int) -> None:
    await push(engine, *range(1, 41))
    consumer = engine.consume(REQUEST, prefetch=prefetch)
    for number in range(1, 41):
        assert numbers([await take(consumer)]) == [number]
        assert (await lane(sql))["last_consumed_seq"] == number - 1
    assert await consumer.next() is None
    assert (await lane(sql))["last_consumed_seq"] == 40
    assert consumer.lost == 0


async def test_nothing_is_popped_ahead_unless_asked_for(engine: Engine, sql: Sql) -> None:
    """Not by one consumer, and not by many that take single messages at once, however quick they are."""
    for partition in range(20):
        await push(engine, *range(1, 11), partition=f"p{partition}")
    async with engine.consume(REQUEST) as consumer:
        async for _ in consumer:
            assert await leased(sql) == {1}
    for partition in range(20):
        await push(engine, *range(1, 11), partition=f"p{partition}")
    for _ in range(10):
        got = await asyncio.gather(*(engine.pop(REQUEST) for _ in range(20)))
        assert await leased(sql) == {1}
        await asyncio.gather(*(engine.ack_messages(messages) for messages in got))


async def test_a_prefetch_is_one_batch_under_one_lease(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(1, 11))
    async with engine.consume(REQUEST, prefetch=4) as consumer:
        given = [message async for message in consumer]
    assert numbers(given) == list(range(1, 11))
    assert await runs(sql) == [4, 4, 2]
    assert len({message.lease_id for message in given}) == 3


@pytest.mark.parametrize("skipped", [False, True], ids=["plain", "with a deleted message"])
async def test_what_is_fetched_is_a_mebibyte_at_most(engine: Engine, sql: Sql, skipped: bool) -> None:
    sizes = [300_000] * 5 + [3_000_000, 10, 10, 1_000_000, 100_000]
    pushed = await engine.push([NewMessage(queue="q", partition="p", payload=f'"{"x" * size}"') for size in sizes])
    if skipped:
        await engine.delete_message(pushed[1].partition_id, pushed[1].transaction_id)
    async with engine.consume(REQUEST, prefetch=100) as consumer:
        given = [len(message.payload) - 2 async for message in consumer]
    assert given == (sizes[:1] + sizes[2:] if skipped else sizes)
    assert await runs(sql) == ([4, 1, 1, 3, 1] if skipped else [3, 2, 1, 3, 1])
    row = await lane(sql)
    assert row["total_messages_delivered"] == row["total_messages_consumed"]


async def test_what_a_slow_consumer_holds_goes_back_and_it_pops_one_at_a_time(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "HOLD", 0.0)
    await push(engine, 1, 2, 3, 4, 5)
    async with engine.consume(REQUEST, prefetch=3) as consumer:
        given = [message async for message in consumer]
    assert [(*numbers([one]), one.retry_count, one.delivery_count) for one in given] == [(n, 0, 0) for n in range(1, 6)]
    assert await runs(sql) == [3, 1, 1, 1, 1]


def test_the_pace_follows_the_consumer() -> None:
    pace = consuming.Pace(20)
    assert pace.count == 20
    counts = []
    moment = consuming.HOLD
    for given, part in [(8, 1.0), (1, 9.0), (1, 0.01), (2, 0.01), (1, 0.01), (8, 0.01), (16, 0.64), (20, 0.8), (20, 1)]:
        pace.went(given, part * moment)
        counts.append(pace.count)
    assert counts == [6, 1, 2, 4, 8, 16, 20, 20, 16]


async def test_partitions_take_turns_when_a_consumer_is_slow(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, 1, 2, 3, partition="a")
    await push(engine, 1, 2, 3, partition="b")
    consumer = engine.consume(REQUEST, prefetch=3)
    given = [await take(consumer) for _ in range(2)]
    assert [(message.partition, *numbers([message])) for message in given] == [("a", 1), ("a", 2)]
    monkeypatch.setattr(consuming, "HOLD", -1.0)
    given = [await take(consumer) for _ in range(4)]
    assert [(message.partition, *numbers([message])) for message in given] == [("b", 1), ("a", 3), ("b", 2), ("b", 3)]
    row = await lane(sql, partition="a")
    assert (row["last_consumed_seq"], row["lease_id"], row["retry_count"]) == (3, None, 0)
    assert await sql.fetchval("select outcome from queen.deliveries order by ended_at limit 1") == "released"


async def test_a_stopped_engine_gives_nothing_more_and_hands_back(engine: Engine, other: Engine) -> None:
    await push(engine, 1, 2, 3)
    consumer = engine.consume(REQUEST, prefetch=3)
    assert numbers([await take(consumer)]) == [1]
    await engine.stop()
    assert await consumer.next() is None
    assert numbers(await pop(other)) == [2, 3]


async def test_many_consumers_share_the_work_in_order(engine: Engine, sql: Sql) -> None:
    for partition in "abcd":
        await push(engine, *range(1, 101), partition=partition)
    seen: dict[str, list[int]] = defaultdict(list)

    async def work() -> None:
        async with engine.consume(REQUEST, prefetch=16) as consumer:
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
        async with engine.consume(PopRequest(queue="q", group=group, wait=0.2), prefetch=10) as consumer:
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
        async with engine.consume(REQUEST, prefetch=16) as consumer:
            async for message in consumer:
                if numbers([message]) == [2]:
                    raise ZeroDivisionError("boom")

    with pytest.raises(ZeroDivisionError):
        await work()
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 1, None)
    again = await pop(engine)
    assert numbers(again) == [2]
    await engine.ack_messages(again)
    assert numbers(await pop(engine)) == [3, 4]


async def test_leaving_hands_back_what_was_not_finished(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    async with engine.consume(REQUEST, prefetch=16) as consumer:
        async for message in consumer:
            if numbers([message]) == [2]:
                break
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 0, None)
    assert numbers(await pop(engine)) == [2, 3, 4]


async def test_done_acknowledges_without_taking_another(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    async with engine.consume(REQUEST, prefetch=16) as consumer:
        async for message in consumer:
            if numbers([message]) == [2]:
                await consumer.done()
                break
    assert numbers(await pop(engine)) == [3, 4]


async def test_whoever_is_cancelled_hands_back_uncounted(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = asyncio.Event()

    async def work() -> None:
        async with engine.consume(REQUEST, prefetch=16) as consumer:
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
    async with engine.consume(REQUEST, prefetch=16) as consumer:
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
    consumer = engine.consume(REQUEST, prefetch=16)
    held = [await take(consumer) for _ in range(4)][-1]
    await clock.advance(1000)
    other = await pop(engine, 1)
    assert numbers(other) == numbers([held]) == [4]
    assert await consumer.next() is None
    assert consumer.lost == 1
    await engine.ack_messages(other)
    assert [numbers([await take(consumer)]) for _ in range(3)] == [[5], [6], [7]]


async def test_a_lost_lease_met_by_a_failure_takes_back_what_is_held(engine: Engine, clock: Clock) -> None:
    await push(engine, *range(1, 8))
    consumer = engine.consume(REQUEST, prefetch=16)
    assert numbers([await take(consumer)]) == [1]
    await clock.advance(1000)
    assert numbers(await pop(engine, 1)) == [1]
    assert (await consumer.fail("no")).verdict == "lost"
    assert await consumer.next() is None, "what it still holds is somebody else's now"


async def test_what_a_consumer_cannot_do(engine: Engine) -> None:
    with pytest.raises(errors.InvalidRequest, match="autoAck"):
        engine.consume(PopRequest(queue="q", auto_ack=True))
    for prefetch in (0, 1001):
        with pytest.raises(errors.InvalidRequest, match="prefetch must be between 1 and 1000"):
            engine.consume(REQUEST, prefetch=prefetch)
    consumer = engine.consume(REQUEST, prefetch=16)
    for call in (consumer.done, consumer.fail):
        with pytest.raises(errors.InvalidRequest, match="no message is at hand"):
            await call()
    await consumer.close()
