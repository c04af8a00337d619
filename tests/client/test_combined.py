"""What tasks can do, together: each option is tested by itself elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import asyncpg
import pytest

import queen
from queen.client.runner import Running
from queen.client.ticks import Periodic
from tests.client.test_app import FAST, app, dead, is_now, work
from tests.support.wait import eventually

__all__ = ["app"]


async def test_a_unique_call_stays_the_only_one_between_its_attempts(app: queen.App) -> None:
    tried: list[datetime] = []
    again: list[str] = []

    @app.task(unique=True, retry=FAST)
    async def rebuild(name: str) -> None:
        tried.append(datetime.now(UTC))
        raise RuntimeError("not yet")

    @app.on_failure
    async def push_another(running: Running, error: Exception, delay: float) -> None:
        again.append((await rebuild.push(**running.arguments)).status)

    first = await rebuild.push("a")
    await work(app, lambda: len(tried) == 3)
    assert again == ["duplicate", "duplicate"]
    assert await first.standing() == "dead"
    second = await rebuild.push("a")
    assert (second.status, second.id == first.id) == ("queued", False)


async def test_a_unique_call_that_is_delayed_or_cancelled(app: queen.App) -> None:
    @app.task(unique=True)
    async def rebuild(name: str) -> None: ...

    later = await rebuild.push("a", delay=3600)
    again = await rebuild.push("a", delay=3600)
    assert (later.status, again.status, again.id) == ("scheduled", "duplicate", later.id)
    assert await again.cancel()
    waiting = await rebuild.push("a")
    assert (waiting.status, (await rebuild.push("a")).id) == ("queued", waiting.id)
    assert await waiting.cancel()
    last = await rebuild.push("a")
    assert (last.status, last.id == waiting.id) == ("queued", False)


async def test_a_unique_call_in_the_callers_transaction(database: str) -> None:
    async with queen.App(database) as app:

        @app.task(unique=True, retry=queen.Backoff(attempts=1))
        async def rebuild(name: str) -> None:
            raise RuntimeError("dead")

        connection = await asyncpg.connect(database)
        outbox = rebuild.using(connection=connection)
        try:
            job = await rebuild.push("a")
            await work(app, lambda: bool(app.progress) and app.progress["tasks"].failed == 1)
            assert await job.standing() == "dead"
            async with connection.transaction():
                first = await outbox.push("a")
                twice = await outbox.push("a")
                # Nobody sees it before the commit.
                assert await first.standing() == "unknown"
            assert (first.status, first.id == job.id, twice.id) == ("queued", False, first.id)
            assert await first.standing() == "waiting"
            async with connection.transaction():
                third = await outbox.push("a")
            assert (third.status, third.id) == ("duplicate", first.id)
        finally:
            await connection.close()


async def test_a_result_of_the_last_of_several_attempts(app: queen.App) -> None:
    left = Counter(again=2, never=9)

    @app.task(retry=FAST)
    async def go(name: str) -> str:
        left[name] -= 1
        if left[name] >= 0:
            raise LookupError(f"not yet {left[name]}")
        return name

    running = asyncio.create_task(app.run(signals=False))
    assert await go.push("again").result(30) == "again"
    with pytest.raises(queen.TaskFailed, match="LookupError: not yet 6"):
        await go.push("never").result(30)
    left.update(again=2, never=9)
    with pytest.raises(queen.TaskFailed, match="LookupError"):
        await go.push("never", partition="ordered").result(30)
    app.stop()
    await running


async def test_whoever_waits_for_a_result_learns_why_there_is_none(app: queen.App) -> None:
    @app.task()
    async def go(number: int) -> object:
        return object() if number else None

    client = await app.opened()

    @app.task(name="gone")
    async def gone() -> None: ...

    unknown = await gone.using(keep_result=True).push()
    del app.tasks["gone"]
    cancelled, buried = (
        await go.push(0, delay=3600, keep_result=True),
        await go.push(0, partition="p", keep_result=True),
    )
    assert await cancelled.cancel()
    (message,) = await client.pop("tasks", partition="p")
    await client.ack(message.dead("by hand"))
    running = asyncio.create_task(app.run(signals=False))
    told = {"no task 'gone'": unknown, "was cancelled": cancelled, "queen dlq ls": buried}
    for text, job in told.items():
        with pytest.raises(queen.TaskFailed, match=text):
            await job.result(30)
    with pytest.raises(queen.TaskFailed, match="cannot be written as JSON"):
        await go.push(1).result(30)
    app.stop()
    await running


async def test_a_call_whose_result_is_kept_can_be_replayed(app: queen.App) -> None:
    ran: list[int] = []

    @app.task()
    async def count(name: str) -> int:
        ran.append(len(ran))
        return len(ran)

    job = await count.push("a", partition="p", keep_result=True)
    client = await app.opened()
    await work(app, lambda: len(ran) == 1)
    await client.groups.seek("tasks", to="start")
    await work(app, lambda: len(ran) == 2)
    assert await job.result(30) == 1
    assert {one.name: one.depth for one in await client.queues.list()}["tasks"] == 0
    assert len(ran) == 2


async def test_a_call_can_be_cancelled_only_while_nobody_has_it(app: queen.App) -> None:
    ran: list[int] = []
    go_on = asyncio.Event()

    @app.task(retry=queen.Backoff(attempts=2, first=3600, jitter=0))
    async def go(number: int) -> None:
        ran.append(number)
        await go_on.wait()
        if number == 3:
            raise RuntimeError("in an hour")

    jobs = [await go.push(number, partition="p") for number in range(4)]
    running = asyncio.create_task(app.run(signals=False, prefetch=2))
    await eventually(lambda: ran == [0])
    assert [await job.standing() for job in jobs[:2]] == ["running", "running"], "fetched together, under one lease"
    assert [await job.cancel() for job in jobs[:3]] == [False, False, True]
    go_on.set()
    await eventually(lambda: is_now(jobs[3], "waiting") if 3 in ran else False)
    assert await jobs[3].cancel(), "it waits for its second attempt"
    app.stop()
    await running
    assert ran == [0, 1, 3]
    assert [await job.standing() for job in jobs] == ["done", "done", "unknown", "unknown"]
    assert await dead(app) == []


async def test_a_rate_with_prefetch_keeps_the_order_and_counts_no_attempt(app: queen.App) -> None:
    began: list[tuple[int, int]] = []
    app.limit("tasks", 5, per=1)

    @app.task(retry=FAST)
    async def go(number: int) -> None:
        began.append((number, app.message.retry_count))

    for number in range(12):
        await go.push(number, partition="p")
    # Longer than the worker may take to end: it hands the messages back instead of waiting.
    await work(app, lambda: len(began) == 12, prefetch=10, drain=0.2)
    assert began == [(number, 0) for number in range(12)]
    permits = await (await app.opened()).pop("rates", group="look", batch=100)
    assert max(Counter(one.transaction_id.partition(":")[0] for one in permits).values()) <= 5


async def test_the_attempts_of_a_task_are_its_own_and_not_the_queues(app: queen.App) -> None:
    tried: list[str] = []
    client = await app.opened()
    await client.queues.configure("tasks", retry_limit=1, retry_delay=60_000)

    @app.task(retry=queen.Backoff(attempts=6, first=0, jitter=0))
    async def go(name: str) -> None:
        tried.append(name)
        raise RuntimeError("again")

    await go.push("ordered", partition="p")
    await go.push("spread")
    await work(app, lambda: len(tried) == 12)
    assert Counter(tried) == {"ordered": 6, "spread": 6}
    assert len(await dead(app)) == 2


async def test_functions_that_never_end_leave_room_for_others(app: queen.App) -> None:
    """More of them than may run at once: each is given up after its time, and the next one has a thread."""
    release = threading.Event()
    ended: list[int] = []

    @app.task(time_limit=0.3, retry=queen.Backoff(attempts=1))
    def go(number: int) -> None:
        if number < 5:
            release.wait(60)
        ended.append(number)

    for number in range(8):
        await go.push(number, partition="p")
    try:
        await work(app, lambda: len(ended) == 3, concurrency=2)
        assert ended == [5, 6, 7]
        assert len(await dead(app)) == 5
    finally:
        release.set()


STUCK = """
import asyncio, sys, time
import queen

app = queen.App(sys.argv[1])

@app.task(time_limit=0.2, retry=queen.Backoff(attempts=1))
def stuck() -> None:
    time.sleep(600)

async def main() -> None:
    async with app:
        await stuck.push()
        await app.run(limit=1)

asyncio.run(main())
"""


def test_a_function_that_never_ends_does_not_keep_the_worker_from_ending(database: str) -> None:
    subprocess.run([sys.executable, "-c", STUCK, database], check=True, timeout=60, stderr=subprocess.DEVNULL)


async def test_ticks_of_a_clock_that_is_set(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set back, no tick is pushed again; set ahead, those in between are left out."""
    moved = timedelta()

    class Set(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + moved

    monkeypatch.setattr("queen.client.ticks.datetime", Set)
    apps = [queen.App(database) for _ in range(2)]
    ran: list[datetime] = []
    for one in apps:

        @one.every("1s")
        async def sweep() -> None:
            ran.append(datetime.now(UTC))

    running = [asyncio.create_task(one.run(signals=False)) for one in apps]
    await eventually(lambda: len(ran) == 1)
    moved = timedelta(seconds=-2)
    await eventually(lambda: len(ran) == 2)
    moved = timedelta(seconds=60)
    await eventually(lambda: len(ran) == 4)
    for one in apps:
        one.stop()
    await asyncio.gather(*running)
    client = await apps[0].opened()
    popped = await client.pop("tasks", group="look", partition="every-sweep", batch=100)
    ticks = [datetime.fromisoformat(message.transaction_id.removeprefix("sweep@")) for message in popped]
    gaps = [later - earlier for earlier, later in pairwise(ticks)]
    assert min(gaps) >= timedelta(seconds=1)
    assert sum(gap > timedelta(seconds=50) for gap in gaps) == 1
    assert len(ticks) <= 6
    for one in apps:
        await one.close()


def test_ticks_where_the_clocks_change() -> None:
    async def nothing() -> None: ...

    nightly = Periodic(queen.App().task()(nothing), "30 2 * * *", ZoneInfo("Europe/Berlin"))

    def after(moment: datetime, count: int) -> list[datetime]:
        found = [nightly.next(moment)]
        while len(found) < count:
            found.append(nightly.next(found[-1]))
        return found

    spring = after(datetime(2026, 3, 27, 12, tzinfo=UTC), 3)
    assert [one.date().isoformat() for one in spring] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert spring[0].hour == 1
    assert spring[2].hour == 0
    autumn = after(datetime(2026, 10, 23, 12, tzinfo=UTC), 3)
    assert [one.date().isoformat() for one in autumn] == ["2026-10-24", "2026-10-25", "2026-10-26"], "once that night"
    for moment in (*spring, *autumn):
        # Workers that look at different times of the second before find the same tick.
        assert {nightly.next(moment - timedelta(milliseconds=early)) for early in (1, 500, 999)} == {moment}
