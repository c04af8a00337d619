from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import Struct

import queen
from queen.model import NewMessage, Pushed


class Order(Struct):
    number: int
    customer: str = "acme"


@dataclass
class Line:
    item: str


async def test_a_push_says_what_became_of_it(q: queen.Client) -> None:
    pushed = await q.push("orders", {"n": 1}, partition="acme", transaction_id="order-1")
    assert (pushed.status, pushed.queue, pushed.partition) == ("queued", "orders", "acme")
    assert pushed.transaction_id == "order-1"
    again = await q.push("orders", {"n": 2}, partition="acme", transaction_id="order-1")
    assert (again.status, again.id) == ("duplicate", pushed.id)
    elsewhere = await q.push("orders", {"n": 2}, partition="other", transaction_id="order-1")
    assert elsewhere.status == "queued"


async def test_payloads_come_back_as_they_were(q: queen.Client) -> None:
    payloads: list[object] = [None, 0, "text", [1, {"a": []}], {}, Order(7), Line("pen")]
    await q.push_many("things", payloads)
    messages = await q.pop("things", batch=10)
    plain = [*payloads[:5], {"number": 7, "customer": "acme"}, {"item": "pen"}]
    assert [message.data for message in messages] == plain
    assert [message.seq for message in messages] == [1, 2, 3, 4, 5, 6, 7]


async def test_many_queues_in_one_push_are_stored_together(q: queen.Client) -> None:
    pushes = [queen.Push("a", 1), queen.Push("b", 2, partition="x"), queen.Push("a", 3, transaction_id="t")]
    assert [pushed.queue for pushed in await q.push_all(pushes)] == ["a", "b", "a"]
    with pytest.raises(queen.InvalidRequest) as caught:
        await q.push_all([queen.Push("a", 4), queen.Push("a", 5, transaction_id="x" * 300)])
    assert caught.value.code == "INVALID_TRANSACTION_ID"
    assert [message.data for message in await q.pop("a", batch=9)] == [1, 3]
    assert await q.push_many("a", []) == []


async def test_a_payload_without_json_is_refused_by_name(q: queen.Client) -> None:
    with pytest.raises(queen.InvalidRequest, match="payload cannot be written as JSON: object is no JSON value"):
        await q.push("orders", object())
    with pytest.raises(queen.InvalidRequest, match="time zone"):
        await q.push("orders", 1, deliver_at=datetime(2030, 1, 1))  # noqa: DTZ001


async def test_a_message_for_later_is_scheduled(q: queen.Client) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    pushed = await q.push("reminders", {"n": 1}, deliver_at=later, transaction_id="r-1")
    assert (pushed.status, pushed.seq) == ("scheduled", None)
    assert await q.pop("reminders") == []


async def test_a_push_says_how_full_its_queue_is(q: queen.Client) -> None:
    await q.queues.configure("small", max_queue_size=5)
    assert [(one.depth, one.remaining) for one in await q.push_many("small", [1, 2])] == [(2, 3), (2, 3)]
    pushed = await q.push("small", 3)
    assert (pushed.depth, pushed.remaining) == (3, 2)
    pushed = await q.push("boundless", 1)
    assert (pushed.depth, pushed.remaining) == (None, None)


async def test_a_full_queue_refuses_or_is_waited_for(q: queen.Client) -> None:
    await q.queues.configure("small", max_queue_size=2)
    await q.push_many("small", [1, 2])
    with pytest.raises(queen.QueueFull) as caught:
        await q.push("small", 3)
    assert caught.value.retryable
    assert (caught.value.figures["depth"], caught.value.figures["limit"]) == (2, 2)
    waiting = asyncio.create_task(q.push("small", 3, wait_for_room=20))
    await q.ack(await q.pop("small", batch=2))
    assert (await waiting).status == "queued"


async def test_a_buffer_sends_by_count_and_by_time(q: queen.Client) -> None:
    async with q.buffer(count=3, delay=30) as buffer:
        for number in range(4):
            await buffer.push("events", number)
        assert (len(buffer), buffer.sent) == (1, 3)
        assert [message.data for message in await q.pop("events", batch=9, auto_ack=True)] == [0, 1, 2]
        assert await buffer.flush() == 1
        await buffer.push("events", 4)
    assert [message.data for message in await q.pop("events", batch=9, auto_ack=True)] == [3, 4]
    async with q.buffer(count=100, delay=0.01) as buffer:
        await buffer.push("events", 5)
        assert [message.data for message in await q.pop("events", wait=20)] == [5]


@pytest.mark.parametrize("q", ["direct", "http"], indirect=True)
async def test_what_a_buffer_sends_again_is_stored_once(q: queen.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is lost, and nothing gets through for as long as the push tries; a later flush sends it again."""
    store, lost = q.transport.push, True

    async def push(items: Sequence[NewMessage], *, again: bool) -> list[Pushed]:
        answer = [] if lost and again else await store(items, again=again)
        if lost:
            raise queen.StoreUnavailable("the connection was lost")
        return answer

    monkeypatch.setattr(q.transport, "push", push)
    monkeypatch.setattr(q, "retry", queen.Retry(attempts=2, base=0.001))
    buffer = q.buffer(count=3, delay=30)
    await buffer.push("events", 1)
    with pytest.raises(queen.StoreUnavailable):
        await buffer.flush()
    lost = False
    for number in (2, 3, 4):
        await buffer.push("events", number)
    await buffer.close()
    assert [message.data for message in await q.pop("events", batch=9)] == [1, 2, 3, 4]


async def test_what_a_buffer_could_not_send_is_told_and_kept(q: queen.Client) -> None:
    await q.queues.configure("small", max_queue_size=1)
    buffer = q.buffer(count=2, delay=30)
    await buffer.push("small", 1)
    with pytest.raises(queen.QueueFull):
        await buffer.push("small", 2)
    assert len(buffer) == 2
    await q.queues.configure("small", max_queue_size=5)
    assert await buffer.flush() == 2


async def test_ids_are_uuids_in_order(q: queen.Client) -> None:
    pushed = await q.push_many("orders", range(5))
    assert all(isinstance(one.id, UUID) for one in pushed)
    assert [one.id for one in pushed] == sorted(one.id for one in pushed)


async def test_the_empty_queue_name_is_refused(q: queen.Client) -> None:
    async def work(message: queen.Message[int]) -> None:
        raise AssertionError

    for call in (q.push("", 1), q.pop(""), q.queues.configure(""), q.consume("", work, idle=0.1, signals=False)):
        with pytest.raises(queen.InvalidRequest, match="not the empty text"):
            await call


async def test_one_of_many_gathered_pushes_is_refused_alone(direct: queen.Client) -> None:
    """While one push of a partition is under way the next ones gather, and go together."""
    pushes = (direct.push("orders", "\0" if number == 5 else number) for number in range(10))
    answers = await asyncio.gather(*pushes, return_exceptions=True)
    assert [isinstance(answer, queen.InvalidRequest) for answer in answers] == [number == 5 for number in range(10)]
    assert [message.data for message in await direct.pop("orders", batch=20)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
