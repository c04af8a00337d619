from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queen.config import Settings
from queen.engine import Engine, KeyRing
from queen.engine.reading import Window
from queen.engine.scheduled import Schedule
from queen.engine.services.jobs import Jobs
from queen.ids import uuid7
from queen.model import NewMessage
from tests.support.clock import Clock
from tests.support.work import numbers, pop, push


@pytest.fixture
def schedule(engine: Engine) -> Schedule:
    return Schedule(engine.database, engine.keys)


def later(minutes: int) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


async def test_what_waits_comes_in_the_order_it_is_due(engine: Engine, schedule: Schedule) -> None:
    for minutes in (30, 10, 20):
        await push(engine, minutes, deliver_at=later(minutes), transaction_id=f"t-{minutes}")
    await push(engine, 5, queue="other", deliver_at=later(5))
    page = await schedule.waiting("q", Window())
    assert [each.transaction_id for each in page.items] == ["t-10", "t-20", "t-30"]
    assert [each.payload for each in page.items] == ['{"n": 10}', '{"n": 20}', '{"n": 30}']
    assert [each.queue for each in (await schedule.waiting(None, Window())).items] == ["other", "q", "q", "q"]
    assert await pop(engine) == []


async def test_pages_by_cursor_and_by_offset(engine: Engine, schedule: Schedule) -> None:
    at = later(10)
    await engine.push([NewMessage(queue="q", payload=str(n), deliver_at=at) for n in range(5)])
    seen: list[str] = []
    cursor = None
    for _ in range(3):
        page = await schedule.waiting("q", Window(limit=2, cursor=cursor))
        seen += [each.payload for each in page.items]
        cursor = page.next_cursor
    assert sorted(seen) == ["0", "1", "2", "3", "4"]
    assert cursor is None
    assert [each.payload for each in (await schedule.waiting("q", Window(limit=2, offset=2))).items] == seen[2:4]


async def test_a_cancelled_message_is_never_delivered(engine: Engine, schedule: Schedule) -> None:
    (pushed,) = await push(engine, 1, deliver_at=later(10))
    assert await schedule.cancel(pushed.id)
    assert not await schedule.cancel(pushed.id)
    assert not await schedule.cancel(uuid7())
    assert (await schedule.waiting(None, Window())).items == []


async def test_encrypted_payloads_are_opened(database: str) -> None:
    keys = KeyRing(["a" * 64])
    async with Engine.connect(database, keys=keys) as engine:
        await engine.queues.configure("q", {"encryption_enabled": True})
        await push(engine, 7, deliver_at=later(10))
        assert [e.payload for e in (await Schedule(engine.database, keys).waiting("q", Window())).items] == ['{"n": 7}']
        stranger = await Schedule(engine.database, KeyRing(["b" * 64])).waiting("q", Window())
        assert '"encrypted"' in stranger.items[0].payload


async def test_what_was_taken_before_encryption_came_on_is_delivered(database: str, clock: Clock) -> None:
    """One message in the clear must not hold up everything else that is due."""
    async with Engine.connect(database, keys=KeyRing(["a" * 64])) as engine:
        await push(engine, 1, 2, deliver_at=later(1))
        await engine.queues.configure("q", {"encryption_enabled": True})
        await push(engine, 3, deliver_at=later(2))
        await clock.advance(180)
        assert await Jobs(engine, Settings()).scheduled() == {"delivered": 3, "finished": True}
        assert numbers(await pop(engine, batch=10)) == [1, 2, 3]
