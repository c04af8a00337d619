from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct

import queen
from queen.engine import consume as engine_consume
from queen.errors import StoreUnavailable
from queen.model import Renewal
from tests.support.wait import eventually
from tests.support.work import connect


class Order(Struct):
    number: int


async def test_messages_arrive_in_order_and_typed(q: queen.Client) -> None:
    for number in range(20):
        await q.push("orders", Order(number), partition=f"p{number % 3}")
    seen: list[tuple[str, int]] = []

    async def bill(message: queen.Message[Order]) -> None:
        seen.append((message.partition, message.data.number))

    consumed = await q.consume("orders", bill, group="billing", prefetch=4, concurrency=3, limit=20, signals=False)
    assert (consumed.handled, consumed.failed) == (20, 0)
    for lane in ("p0", "p1", "p2"):
        numbers = [number for partition, number in seen if partition == lane]
        assert numbers == sorted(numbers)
    assert await q.pop("orders", group="billing") == []


async def test_a_handler_slower_than_the_lease_runs_once(q: queen.Client) -> None:
    await q.queues.configure("slow", lease_time=1)
    await q.push_many("slow", [1, 2])
    runs: list[int] = []
    release = asyncio.Event()

    async def work(message: queen.Message[int]) -> None:
        runs.append(message.data)
        if message.data == 1:
            await asyncio.wait_for(release.wait(), 20)

    both = [asyncio.create_task(q.consume("slow", work, prefetch=2, limit=2, signals=False)) for _ in range(2)]
    await eventually(lambda: runs == [1])
    before = (await q.pop("slow"), asyncio.get_running_loop().time())
    await asyncio.sleep(2.2)  # longer than two leases: only renewal keeps the message
    assert (before[0], await q.pop("slow"), runs) == ([], [], [1])
    release.set()
    await eventually(lambda: runs == [1, 2])
    q.stop()
    await asyncio.wait_for(asyncio.gather(*both), 20)
    assert await q.pop("slow") == []


async def test_a_raising_handler_retries_and_then_leaves_a_dead_letter(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=2)
    await q.push_many("orders", [1, 2, 3])
    seen: list[int] = []

    async def work(message: queen.Message[int]) -> None:
        seen.append(message.data)
        if message.data == 2:
            raise ValueError("no such address")

    consumed = await q.consume("orders", work, prefetch=3, idle=0.5, signals=False)
    assert seen == [1, 2, 2, 2, 3]
    assert (consumed.handled, consumed.failed) == (2, 3)
    (dead,) = await q.dead_letters.list("orders")
    assert (dead.data, dead.error.splitlines()[0]) == (2, "ValueError: no such address")


async def test_a_payload_that_does_not_fit_fails_its_message_only(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=0)
    await q.push_many("orders", [{"number": 1}, {"numbr": 2}, {"number": 3}])
    seen: list[int] = []

    async def work(message: queen.Message[Order]) -> None:
        seen.append(message.data.number)

    await q.consume("orders", work, prefetch=3, idle=0.3, signals=False)
    assert seen == [1, 3]
    (dead,) = await q.dead_letters.list("orders")
    assert dead.error.startswith("DecodeError: the payload does not fit Order: Object missing required field `number`")


async def test_a_handler_can_reject_and_hand_back(q: queen.Client) -> None:
    await q.push_many("orders", ["bad", "later", "good"])
    seen: list[str] = []

    async def work(message: queen.Message[str]) -> None:
        seen.append(message.data)
        if message.data == "bad":
            raise queen.Reject("never")
        if message.data == "later" and seen.count("later") == 1:
            raise queen.HandBack("not yet", delay=0.05)

    await q.consume("orders", work, prefetch=3, idle=0.5, signals=False)
    assert seen == ["bad", "later", "later", "good"]
    (dead,) = await q.dead_letters.list("orders")
    assert (dead.error.splitlines()[0], dead.retry_count) == ("Reject: never", 0)


@pytest.mark.parametrize("prefetch", [1, 4])
@pytest.mark.parametrize("how", ["consume", "messages"])
async def test_each_message_is_acknowledged_before_the_next(
    q: queen.Client, direct: queen.Client, how: str, prefetch: int
) -> None:
    await q.push_many("orders", range(9))
    seen: list[tuple[int, int]] = []

    async def work(message: queen.Message[int]) -> None:
        (queue,) = await direct.queues.list()
        seen.append((message.data, queue.depth))

    if how == "consume":
        await q.consume("orders", work, prefetch=prefetch, limit=9, signals=False)
    else:
        async for message in q.messages("orders", data=int, prefetch=prefetch, limit=9):
            await work(message)
    assert seen == [(number, 9 - number) for number in range(9)]
    (queue,) = await direct.queues.list()
    assert queue.depth == 0


@pytest.mark.parametrize("how", ["consume", "messages"])
async def test_what_a_slow_consumer_fetched_goes_back_and_others_get_their_turn(
    q: queen.Client, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(engine_consume, "HOLD", -1.0)
    for partition in ("a", "b"):
        await q.push_many("orders", [1, 2, 3], partition=partition)
    seen: list[tuple[str, int, int, int]] = []

    async def work(message: queen.Message[int]) -> None:
        seen.append((message.partition, message.data, message.retry_count, message.delivery_count))

    if how == "consume":
        await q.consume("orders", work, prefetch=3, limit=6, signals=False)
    else:
        async for message in q.messages("orders", data=int, prefetch=3, limit=6):
            await work(message)
    assert seen == [(partition, number, 0, 0) for number in (1, 2, 3) for partition in ("a", "b")]


async def test_a_stopped_iterator_ends_after_the_current_message(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    seen = []
    messages = q.messages("orders", data=int, prefetch=3)
    async for message in messages:
        seen.append(message.data)
        messages.stop()
    assert seen == [1]
    assert [message.data for message in await q.pop("orders", batch=9)] == [2, 3]


async def test_batches_succeed_and_fail_together(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    calls: list[list[int]] = []

    async def work(messages: list[queen.Message[int]]) -> Sequence[queen.Outcome] | None:
        calls.append([message.data for message in messages])
        if len(calls) == 1:
            raise ValueError("all of them")
        return [messages[1].failed("only this one")]

    consumed = await q.consume_batches("orders", work, batch=3, idle=0.3, signals=False)
    assert calls == [[1, 2, 3], [1, 2, 3]]
    assert consumed.handled == 2
    assert [(dead.data, dead.error) for dead in await q.dead_letters.list("orders")] == [(2, "only this one")]


async def test_an_iterator_acknowledges_what_it_passed(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3, 4])
    seen = [message.data async for message in q.messages("orders", data=int, prefetch=3, limit=3)]
    assert seen == [1, 2, 3]
    assert [message.data for message in await q.pop("orders", batch=9)] == [4]


async def test_an_error_around_an_iterator_fails_the_message_and_hands_back_the_rest(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])

    async def work() -> None:
        async with q.messages("orders", data=int, prefetch=3) as messages:
            async for message in messages:
                if message.data == 2:
                    raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await work()
    again = await q.pop("orders", batch=9)
    assert [(message.data, message.retry_count) for message in again] == [(2, 1)], "what failed comes again alone"
    await q.ack(again)
    rest = await q.pop("orders", batch=9)
    assert [(message.data, message.retry_count) for message in rest] == [(3, 0)]


async def test_stopping_hands_back_what_was_not_begun(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    release = asyncio.Event()
    seen: list[int] = []

    async def work(message: queen.Message[int]) -> None:
        seen.append(message.data)
        await asyncio.wait_for(release.wait(), 20)

    running = asyncio.create_task(q.consume("orders", work, prefetch=3, signals=False))
    await eventually(lambda: seen == [1])
    q.stop()
    release.set()
    assert (await asyncio.wait_for(running, 20)).handled == 1
    assert [message.data for message in await q.pop("orders", batch=9)] == [2, 3]


async def test_closing_the_client_finishes_what_runs(database: str) -> None:
    begun, seen = asyncio.Event(), list[int]()

    async def work(message: queen.Message[int]) -> None:
        begun.set()
        await asyncio.sleep(0.1)
        seen.append(message.data)

    async with queen.connect(database) as q:
        await q.push_many("orders", [1, 2, 3])
        running = asyncio.create_task(q.consume("orders", work, prefetch=3, signals=False))
        await asyncio.wait_for(begun.wait(), 20)
    assert (await running).handled == 1
    async with queen.connect(database) as q:
        assert [message.data for message in await q.pop("orders", batch=9)] == [2, 3]
    assert seen == [1]


async def test_registered_consumers_run_side_by_side(q: queen.Client) -> None:
    await q.push("orders", 1)
    await q.push("mails", 2)
    seen: set[int] = set()

    async def note(message: queen.Message[int]) -> None:
        seen.add(message.data)

    q.consumer("orders", limit=1)(note)
    q.consumer("mails", limit=1)(note)
    assert [one.handled for one in await q.run(signals=False)] == [1, 1]
    assert seen == {1, 2}


async def test_wrong_use_is_told_at_once(q: queen.Client) -> None:
    async def work(message: queen.Message[int]) -> None: ...

    async def store(messages: list[queen.Message[int]]) -> None: ...

    for wrong in (0, 1001):
        with pytest.raises(queen.InvalidRequest, match="prefetch must be between 1 and 1000"):
            await q.consume("orders", work, prefetch=wrong)
    with pytest.raises(queen.InvalidRequest, match="batch must be at least 1"):
        await q.consume_batches("orders", store, batch=0)
    given: Any = {"batch": 5}
    with pytest.raises(queen.InvalidRequest, match="batch is for consume_batches; message by message it is"):
        await q.consume("orders", work, **given)
    with pytest.raises(queen.InvalidRequest, match="batch is for consume_batches; message by message it is"):
        q.messages("orders", **given)
    given = {"prefetch": 5}
    with pytest.raises(queen.InvalidRequest, match="prefetch is for messages one by one; here it is batch"):
        await q.consume_batches("orders", store, **given)
    with pytest.raises(queen.InvalidRequest, match="nothing to run"):
        await q.run()
    with pytest.raises(queen.InvalidRequest, match="consumerGroup must be a name"):
        await q.consume("orders", work, group="g" * 600, signals=False)


async def test_a_lease_lost_with_an_ack_ends_the_batch(
    direct: queen.Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else has the partition by then: the rest of the batch is theirs."""
    monkeypatch.setattr(engine_consume, "HOLD", 600.0)
    await direct.push_many("orders", [1, 2, 3])
    seen: list[int] = []

    async def work(message: queen.Message[int]) -> None:
        seen.append(message.data)
        async with connect(database) as other:
            await other.execute("update queen.partition_consumers set lease_id = gen_random_uuid()")

    await direct.consume("orders", work, prefetch=3, idle=0.3, signals=False)
    assert seen == [1]


async def test_a_renewal_that_fails_is_tried_again(direct: queen.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await direct.push("orders", 1)
    renewed, tries = asyncio.Event(), 0
    renew = direct.transport.renew

    async def failing_once(leases: Sequence[UUID], seconds: int) -> list[Renewal]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnavailable("for a moment")
        found = await renew(leases, seconds)
        renewed.set()
        return found

    monkeypatch.setattr(direct.transport, "renew", failing_once)

    async def work(_: queen.Message[int]) -> None:
        await asyncio.wait_for(renewed.wait(), 20)

    consumed = await direct.consume("orders", work, lease=3, limit=1, signals=False)
    assert (consumed.handled, consumed.failed) == (1, 0)
