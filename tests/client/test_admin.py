from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import queen
from queen.model import QUEUE_MODE


async def test_configure_changes_what_is_named_and_keeps_the_rest(q: queen.Client) -> None:
    made = await q.queues.configure("orders", lease_time=60, max_queue_size=500, partial_failure="retry")
    assert (made.lease_time, made.max_queue_size, made.partial_failure) == (60, 500, "retry")
    changed = await q.queues.configure("orders", retry_limit=9)
    assert (changed.lease_time, changed.retry_limit) == (60, 9)
    found = await q.queues.get("orders")
    assert (found.lease_time, found.retry_limit, found.max_queue_size, found.retry_delay) == (60, 9, 500, 0)
    with pytest.raises(queen.InvalidRequest):
        await q.queues.configure("orders", lease_time=-1)
    with pytest.raises(queen.InvalidRequest, match="did you mean lease_time"):
        await q.queues.configure("orders", lease_tme=1)
    timed = await q.queues.configure("orders", lease_time=timedelta(minutes=2), retry_delay="1.5s")
    assert (timed.lease_time, timed.retry_delay) == (120, 1500)
    with pytest.raises(queen.QueueNotFound):
        await q.queues.get("nothing")


async def test_queues_at_a_glance(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3], partition="a")
    await q.push("orders", 4, partition="b")
    await q.push("mails", 1)
    await q.pop("orders", partition="a", batch=2)
    mails, orders = await q.queues.list()
    assert (mails.name, mails.depth) == ("mails", 1)
    assert (orders.name, orders.partitions, orders.depth, orders.total, orders.processing) == ("orders", 2, 4, 4, 2)
    partitions = await q.queues.partitions("orders")
    assert [(one.name, one.depth, one.processing) for one in partitions] == [("a", 3, 2), ("b", 1, 0)]


async def test_a_paused_queue_hands_out_nothing(q: queen.Client) -> None:
    await q.push("orders", 1)
    await q.queues.pause("orders")
    assert await q.pop("orders") == []
    assert (await q.queues.get("orders")).paused
    await q.queues.resume("orders")
    assert len(await q.pop("orders")) == 1
    with pytest.raises(queen.QueueNotFound):
        await q.queues.pause("nothing")


async def test_clear_and_delete(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    assert await q.queues.clear("orders") == 3
    assert await q.pop("orders") == []
    assert await q.queues.delete("orders")
    assert not await q.queues.delete("orders")


async def test_groups_have_their_own_cursor_and_can_be_moved(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    await q.ack(await q.pop("orders", group="billing", batch=2))
    billing = {one.group: one for one in await q.groups.list("orders")}["billing"]
    assert (billing.lag, billing.lagging, billing.partitions) == (1, 1, 1)
    (partition,) = await q.groups.get("billing")
    assert (partition.queue, partition.partition, partition.lag, partition.consumed) == ("orders", "Default", 1, 2)

    preview = await q.groups.seek("orders", "billing", to="start", dry_run=True)
    assert (preview.redelivered, preview.skipped) == (2, 0)
    assert (await q.groups.list("orders"))[0].lag == 1
    await q.groups.seek("orders", "billing", to="start")
    assert len(await q.pop("orders", group="billing", batch=9)) == 3
    await q.groups.seek("orders", "billing", to="end")
    assert await q.pop("orders", group="billing") == []
    await q.groups.seek("orders", "billing", to=datetime(2020, 1, 1, tzinfo=UTC))
    assert len(await q.pop("orders", group="billing", batch=9)) == 3
    await q.groups.seek("orders", "billing", to=2, partition="Default")
    assert [message.seq for message in await q.pop("orders", group="billing", batch=9)] == [3]
    assert await q.groups.delete("billing", queue="orders") == 1
    assert len(await q.pop("orders", group="billing", batch=9)) == 3


async def test_dead_letters_are_listed_redriven_and_purged(q: queen.Client) -> None:
    for number in range(3):
        await q.push("orders", number, partition=f"p{number}")
    batch = await q.pop("orders", batch=9, partitions=9)
    await q.ack([message.dead("timeout" if message.data else "no address") for message in batch])
    letters = await q.dead_letters.list("orders")
    assert {letter.data for letter in letters} == {0, 1, 2}
    assert {letter.group for letter in letters} == {QUEUE_MODE}
    assert len(await q.dead_letters.list("orders", limit=1, offset=1)) == 1

    assert await q.dead_letters.get(letters[0].id) == letters[0]
    with pytest.raises(queen.MessageNotFound):
        await q.dead_letters.get(12345)
    found = await q.dead_letters.redrive("orders", error_contains="timeout", dry_run=True)
    assert (found.matched, found.redriven) == (2, 0)
    (bad,) = [letter for letter in letters if letter.error == "no address"]
    assert (await q.dead_letters.redrive(ids=[bad.id], data={"fixed": True}, to_queue="mended")).redriven == 1
    assert [message.data for message in await q.pop("mended")] == [{"fixed": True}]
    assert await q.dead_letters.purge("orders", error_contains="timeout", dry_run=True) == 2
    assert await q.dead_letters.purge("orders", error_contains="timeout") == 2
    assert await q.dead_letters.list("orders") == []


async def test_a_trace_shows_messages_that_follow_from_one_another(q: queen.Client) -> None:
    trace = "0198c0de-0000-7000-8000-000000000001"
    order = await q.push("orders", 1, trace_id=trace)

    async def ship(message: queen.Message[int]) -> None:
        await message.trace("shipped", {"by": "train"}, name="shipping")
        await q.push("mails", {"order": message.data})

    await q.consume("orders", ship, limit=1, signals=False)
    first, second = await q.trace(trace)
    assert (first.queue, first.id, first.parent_id) == ("orders", order.id, None)
    assert [(note.event, note.data) for note in first.notes] == [("shipped", {"by": "train"})]
    assert (second.queue, second.parent_id) == ("mails", order.id)
