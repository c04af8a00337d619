from __future__ import annotations

import pytest

import queen


async def test_acknowledged_messages_do_not_come_again(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    batch = await q.pop("orders", batch=2)
    assert all(acked.ok for acked in await q.ack(batch))
    assert [message.data for message in await q.pop("orders", batch=9)] == [3]


async def test_a_prefix_keeps_the_lease_on_the_rest(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    batch = await q.pop("orders", batch=3)
    await q.ack(batch[0])
    assert await q.pop("orders") == []
    await q.nack(batch[1])
    assert [message.data for message in await q.pop("orders", batch=9)] == [2, 3]


async def test_a_failed_batch_comes_again_and_then_is_a_dead_letter(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=1)
    await q.push_many("orders", [1, 2])
    await q.ack(await q.pop("orders", batch=2), status="failed", error="no luck")
    batch = await q.pop("orders", batch=2)
    assert [(message.data, message.retry_count) for message in batch] == [(1, 1), (2, 1)]
    acked = await q.ack(batch, status="failed", error="still none")
    assert all(one.dead_letter for one in acked)
    assert [(dead.data, dead.error) for dead in await q.dead_letters.list("orders")] == [
        (2, "still none"),
        (1, "still none"),
    ]


async def test_single_outcomes_in_one_call(q: queen.Client) -> None:
    await q.push_many("orders", [1, 2, 3])
    first, second, third = await q.pop("orders", batch=3)
    await q.ack([first, second.failed("bad address"), third.completed()])
    (dead,) = await q.dead_letters.list("orders")
    assert (dead.data, dead.error, dead.transaction_id) == (2, "bad address", second.transaction_id)
    assert await q.pop("orders") == []


async def test_a_late_ack_fails_loudly(q: queen.Client) -> None:
    await q.push("orders", 1)
    (message,) = await q.pop("orders")
    assert await q.nack(message) == 1
    (again,) = await q.pop("orders")
    with pytest.raises(queen.LeaseLost):
        await q.ack(message)
    with pytest.raises(queen.LeaseLost):
        await q.ack(message.failed("late"))
    with pytest.raises(queen.LeaseLost):
        await q.renew(message)
    await q.ack(again)
    assert await q.nack(again) == 0


async def test_renew_keeps_messages(q: queen.Client) -> None:
    await q.push("orders", 1)
    (message,) = await q.pop("orders", lease=2)
    until = await q.renew(message, 600)
    assert until is not None
    assert (until - message.created_at).total_seconds() > 500


async def test_a_delayed_hand_back_hides_messages(q: queen.Client) -> None:
    await q.push("orders", 1)
    await q.nack(await q.pop("orders"), delay=600)
    assert await q.pop("orders") == []
