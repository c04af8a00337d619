from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from queen.engine import Engine
from queen.model import Ack, Message, NewMessage, PopRequest, Pushed, Standing


async def push(engine: Engine, payload: str = "1", **more: object) -> Pushed:
    (pushed,) = await engine.push([NewMessage(queue="q", payload=payload, **more)])  # type: ignore[arg-type]
    return pushed


async def cancel(engine: Engine, pushed: Pushed, *, look: bool = False) -> Standing:
    return await engine.cancel_message(pushed.queue, pushed.partition, pushed.id, pushed.transaction_id, look=look)


async def test_a_waiting_message_is_taken_back_and_the_others_come(engine: Engine) -> None:
    first, second, third = [await push(engine, str(number)) for number in range(3)]
    assert await cancel(engine, second, look=True) == "waiting"
    assert await cancel(engine, second) == "waiting"
    assert await cancel(engine, second) == "unknown"
    popped = await engine.pop(PopRequest(queue="q", batch=10))
    assert [message.id for message in popped] == [first.id, third.id]
    assert await cancel(engine, first) == "running"
    await engine.ack_messages(popped)
    assert await cancel(engine, first) == "done"


async def test_a_scheduled_message_is_taken_back(engine: Engine) -> None:
    pushed = await push(engine, deliver_at=datetime.now(UTC) + timedelta(hours=1), transaction_id="mine")
    other = await engine.cancel_message("other", "Default", pushed.id, "mine")
    assert other == "unknown"
    assert await cancel(engine, pushed, look=True) == "scheduled"
    assert await cancel(engine, pushed) == "scheduled"
    assert await cancel(engine, pushed) == "unknown"


async def test_a_dead_letter_stays(engine: Engine) -> None:
    pushed = await push(engine)
    (message,) = await engine.pop(PopRequest(queue="q"))
    await engine.ack([_ack(message, "dlq")])
    assert await cancel(engine, pushed) == "dead"


async def test_a_message_is_cancelled_or_handed_out_but_never_both(engine: Engine) -> None:
    pushed = [await push(engine, str(number), partition=f"p{number}") for number in range(40)]
    popping = [asyncio.create_task(engine.pop(PopRequest(queue="q", partition=one.partition))) for one in pushed]
    cancelling = [asyncio.create_task(cancel(engine, one)) for one in pushed]
    handed = {message.id for popped in popping for message in await popped}
    taken = {one.id for one, state in zip(pushed, await asyncio.gather(*cancelling), strict=True) if state == "waiting"}
    assert not handed & taken
    assert handed | taken == {one.id for one in pushed}


async def test_a_failed_lease_counts_and_waits(engine: Engine) -> None:
    pushed = [await push(engine, str(number)) for number in range(3)]
    first = await engine.pop(PopRequest(queue="q", batch=3))
    await engine.ack_messages(first[:1])
    lease = first[0].lease_id
    assert lease is not None
    assert await engine.release([lease], 60_000, failed=True) == [1]
    assert await engine.release([lease], 0, failed=True) == [0]
    assert await engine.pop(PopRequest(queue="q", batch=3)) == []
    await engine.database.fetch("update queen.partition_consumers set ready_at = queen.clock() returning 1")
    again = await engine.pop(PopRequest(queue="q", batch=3))
    assert [(message.id, message.retry_count) for message in again] == [(pushed[1].id, 1)]
    assert again[0].lease_id is not None
    await engine.release([again[0].lease_id], 0, failed=True)
    (once_more,) = await engine.pop(PopRequest(queue="q", batch=3))
    assert (once_more.id, once_more.retry_count) == (pushed[1].id, 2)
    await engine.ack([_ack(once_more, "completed")])
    (last,) = await engine.pop(PopRequest(queue="q", batch=3))
    assert (last.id, last.retry_count) == (pushed[2].id, 0)


async def test_what_was_deleted_in_front_is_not_counted(engine: Engine) -> None:
    pushed = [await push(engine, str(number)) for number in range(2)]
    popped = await engine.pop(PopRequest(queue="q", batch=2))
    await engine.delete_message(pushed[0].partition_id, pushed[0].transaction_id)
    assert popped[0].lease_id is not None
    await engine.release([popped[0].lease_id], 0, failed=True)
    (left,) = await engine.pop(PopRequest(queue="q", batch=2))
    assert (left.id, left.retry_count) == (pushed[1].id, 1)


def _ack(message: Message, status: str) -> Ack:
    return Ack(
        partition_id=message.partition_id,
        transaction_id=message.transaction_id,
        lease_id=message.lease_id,
        status=status,  # type: ignore[arg-type]
        error="no",
    )
