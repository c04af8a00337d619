from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import queen
from queen.client.runner import Running
from queen.client.ticks import Periodic
from tests.server.running import run_broker
from tests.support.wait import eventually

FAST = queen.Backoff(attempts=3, first=0.05, factor=1, jitter=0)


@pytest.fixture(params=["direct", "http"])
async def app(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> AsyncIterator[queen.App]:
    """An application; every test that takes it runs on the database and over a broker."""
    if request.param == "http":
        with run_broker(database, tmp_path) as broker:
            async with queen.App(broker.url) as made:
                yield made
    else:
        async with queen.App(database) as made:
            yield made


async def work(app: queen.App, until: Callable[[], bool], **options: Any) -> None:
    """Run the worker until something is so."""
    async with asyncio.timeout(60):
        running = asyncio.create_task(app.run(signals=False, **options))
        await eventually(lambda: until() or running.done(), limit=55)
        app.stop()
        await running


async def dead(app: queen.App, queue: str = "tasks") -> list[Any]:
    return list(await (await app.opened()).dead_letters.list(queue))


async def is_now(job: queen.Job[Any], standing: str) -> bool:
    return await job.standing() == standing


async def len_of(found: Awaitable[list[Any]], count: int) -> bool:
    return len(await found) == count


def counts(app: queen.App) -> tuple[int, int]:
    """What the worker handled and what failed."""
    done = app.progress.get("tasks")
    return (done.handled, done.failed) if done else (0, 0)


class Address(msgspec.Struct):
    city: str


@dataclass
class Person:
    name: str
    home: Address


async def test_arguments_arrive_as_they_were_declared(app: queen.App) -> None:
    seen: list[object] = []

    @app.task(queue="people")
    async def greet(who: Person, times: int = 2, *, loud: bool = False) -> None:
        seen.append((who, times, loud))

    @app.task(queue="people")
    def plain(when: datetime) -> None:
        seen.append(when)

    moment = datetime.now(UTC)
    await greet.push(Person("Ada", Address("London")), loud=True)
    await plain.push(moment)
    client = await app.opened()
    await client.push(
        "people", {"task": "greet", "args": {"who": {"name": "Eve", "home": {"city": "Rome"}}, "times": 1}}
    )
    await work(app, lambda: len(seen) == 3)
    assert (Person("Ada", Address("London")), 2, True) in seen
    assert (Person("Eve", Address("Rome")), 1, False) in seen
    assert moment in seen


async def test_calls_of_a_partition_run_in_order_through_failures(app: queen.App) -> None:
    seen: list[int] = []
    failed: list[int] = []

    @app.task(retry=FAST)
    async def step(number: int) -> None:
        if number % 3 == 0 and failed.count(number) < 2:
            failed.append(number)
            raise RuntimeError(f"not yet {number}")
        seen.append(number)

    for number in range(7):
        await step.push(number, partition="one")
    await work(app, lambda: len(seen) == 7, prefetch=3)
    assert seen == list(range(7))
    assert failed == [0, 0, 3, 3, 6, 6]
    assert await dead(app) == []


async def test_a_call_without_a_partition_holds_up_nobody_while_it_waits(app: queen.App) -> None:
    app = queen.App(app._url, partitions=1)
    seen: list[str] = []

    @app.task(retry=queen.Backoff(attempts=2, first=3600, jitter=0))
    async def go(name: str) -> None:
        if name == "bad":
            raise RuntimeError("later")
        seen.append(name)

    async with app:
        await go.push("bad")
        await go.push("good")
        await work(app, lambda: seen == ["good"])
        client = await app.opened()
        assert await dead(app) == []
        assert [one.depth for one in await client.queues.list() if one.name == "tasks"] == [0]


async def test_the_last_failure_is_a_dead_letter_with_its_traceback(
    app: queen.App, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[int] = []

    @app.task(retry=FAST)
    def breaks(number: int) -> None:
        tried.append(number)
        raise LookupError(f"no such number {number}")

    await breaks.push(1)
    await breaks.push(2, partition="ordered")
    with caplog.at_level(logging.WARNING, "queen"):
        await work(app, lambda: len(tried) == 6 and len(caplog.records) >= 6)
    found = await dead(app)
    assert sorted(tried) == [1, 1, 1, 2, 2, 2]
    assert len(found) == 2
    for one in found:
        assert one.error.startswith("LookupError: no such number")
        assert "in breaks" in one.error
    texts = [record.getMessage() for record in caplog.records]
    assert sum("attempt 1" in text and "tried again in 0.1 s" in text for text in texts) == 2
    assert sum("attempt 3" in text or "is a dead letter now" in text for text in texts) == 2
    assert all(record.exc_info for record in caplog.records)


async def test_some_exceptions_are_given_up_at_once(app: queen.App) -> None:
    tried: list[str] = []

    @app.task(retry=queen.Backoff(attempts=8, give_up=(ValueError,)))
    async def parse(text: str) -> None:
        tried.append(text)
        int(text)

    await parse.push("x", partition="p")
    await parse.push("y", partition="p")
    await work(app, lambda: len(tried) == 2)
    assert tried == ["x", "y"]
    assert len(await dead(app)) == 2


async def test_what_is_no_call_of_ours_is_parked_with_a_reason(app: queen.App) -> None:
    told: list[tuple[str, str]] = []

    @app.task()
    async def send(to: str) -> None: ...

    @app.on_dead_letter
    async def note(running: Running, error: Exception) -> None:
        told.append((running.task, str(error)))

    client = await app.opened()
    await client.push("tasks", {"task": "sned", "args": {"to": "a"}})
    await client.push("tasks", {"task": "send", "args": {"too": "a"}})
    await client.push("tasks", "anything")
    await send.push("a")
    await work(app, lambda: counts(app) == (1, 3))
    errors = [one.error for one in await dead(app)]
    assert any("no task 'sned': did you mean send?" in error for error in errors)
    assert any("too" in error and "PAYLOAD" not in error for error in errors)
    assert any('it must be {"task": NAME' in error for error in errors)
    assert [task for task, _ in told] == ["sned", "send"]


async def test_a_result_can_be_asked_for_again(app: queen.App) -> None:
    @app.task()
    async def double(number: int) -> Person:
        return Person(str(number * 2), Address("here"))

    @app.task(retry=queen.Backoff(attempts=1))
    def breaks() -> int:
        raise LookupError("gone")

    running = asyncio.create_task(app.run(signals=False))
    assert (await double.push(21).result(30)).name == "42"
    job = await double.push(4, keep_result=True, partition="x")
    assert [(await job.result(30)).name, (await job.result(30)).name] == ["8", "8"]
    with pytest.raises(queen.TaskFailed, match="LookupError: gone"):
        await breaks.push().result(30)
    with pytest.raises(queen.InvalidRequest, match="keep_result"):
        await (await double.push(1)).result()
    app.stop()
    await running


async def test_a_result_that_does_not_come_is_a_time_out(app: queen.App) -> None:
    @app.task()
    async def never() -> int:
        return 1

    with pytest.raises(TimeoutError):
        await never.push().result(0.2)


async def test_unique_until_done(app: queen.App) -> None:
    ran: list[str] = []
    go = asyncio.Event()

    @app.task(unique=True, retry=queen.Backoff(attempts=1))
    async def rebuild(name: str) -> None:
        ran.append(name)
        if name == "dies":
            raise RuntimeError("dead")
        await go.wait()

    first = await rebuild.push("a")
    assert (await rebuild.push("a")).id == first.id
    assert (await rebuild.push("b")).status == "queued"
    running = asyncio.create_task(app.run(signals=False))
    await eventually(lambda: len(ran) == 2)
    assert (await rebuild.push("a")).status == "duplicate"
    go.set()
    await eventually(lambda: is_now(first, "unknown"))
    assert (await rebuild.push("a")).status == "queued"
    job = await rebuild.push("dies")
    await eventually(lambda: is_now(job, "dead"))
    assert (await rebuild.push("dies")).status == "queued"
    await eventually(lambda: ran.count("dies") == 2 and ran.count("a") == 2)
    await eventually(lambda: len_of(dead(app), 2))
    app.stop()
    await running
    assert sorted(ran) == ["a", "a", "b", "dies", "dies"]


async def test_a_waiting_call_can_be_cancelled(app: queen.App) -> None:
    ran: list[int] = []

    @app.task()
    async def go(number: int) -> None:
        ran.append(number)

    kept, waiting = await go.push(1), await go.push(2)
    later = await go.push(3, delay=3600)
    assert (later.status, await later.standing()) == ("scheduled", "scheduled")
    assert await waiting.cancel()
    assert await later.cancel()
    assert not await later.cancel()
    await work(app, lambda: ran == [1])
    assert not await kept.cancel()
    assert await kept.standing() == "done"


async def test_a_time_limit_ends_an_attempt(app: queen.App) -> None:
    @app.task(time_limit=0.1, retry=queen.Backoff(attempts=1))
    async def slow() -> None:
        await asyncio.sleep(60)

    release = asyncio.Event()

    @app.task(time_limit=0.1, retry=queen.Backoff(attempts=1))
    def blocked(_n: int) -> None:
        while not release.is_set():
            time.sleep(0.01)

    await slow.push()
    await blocked.push(1)
    await work(app, lambda: counts(app) == (0, 2))
    release.set()
    assert all("longer than its time limit of 0.1 s" in one.error for one in await dead(app))


async def test_hooks_see_every_attempt_and_their_errors_change_nothing(app: queen.App) -> None:
    told: list[tuple[object, ...]] = []
    failures = iter([True, False])

    @app.task(retry=FAST)
    async def go(number: int) -> int:
        if next(failures):
            raise RuntimeError("once")
        return number + 1

    app.before(lambda running: told.append(("before", running.attempt, running.arguments)))
    app.after(lambda running, result: told.append(("after", running.attempt, result)))
    app.on_failure(lambda running, error, delay: told.append(("failed", running.attempt, str(error), delay)))

    @app.before
    def broken(_running: Running) -> None:
        raise ValueError("a hook that is broken")

    await go.push(1)
    await work(app, lambda: any(one[0] == "after" for one in told))
    assert told == [
        ("before", 1, {"number": 1}),
        ("failed", 1, "once", 0.05),
        ("before", 2, {"number": 1}),
        ("after", 2, 2),
    ]


async def test_a_task_reaches_its_message_and_client(app: queen.App) -> None:
    seen: list[tuple[str, int]] = []

    @app.task()
    async def first() -> None:
        await app.message.client.push("tasks", {"task": "second"}, partition=app.message.partition)

    @app.task()
    def second() -> None:
        seen.append((app.message.partition, app.message.seq))

    await first.push(partition="p")
    await work(app, lambda: bool(seen))
    assert seen == [("p", 2)]


async def test_one_push_per_tick_however_many_workers(app: queen.App) -> None:
    ran: list[datetime] = []
    others = [queen.App(app._url) for _ in range(2)]
    for one in (app, *others):

        @one.every("1s", queue="ticks")
        async def sweep() -> None:
            ran.append(datetime.now(UTC))

    running = [asyncio.create_task(one.run(signals=False)) for one in (app, *others)]
    client = await app.opened()
    await eventually(lambda: len(ran) >= 3, limit=55)
    for one in (app, *others):
        one.stop()
    await asyncio.gather(*running)
    for one in others:
        await one.close()
    popped = await client.pop("ticks", group="look", batch=100)
    ticks = [datetime.fromisoformat(message.transaction_id.removeprefix("sweep@")) for message in popped]
    assert all(later - earlier >= timedelta(seconds=1) for earlier, later in pairwise(ticks))
    assert 3 <= len(ran) <= len(ticks)


async def test_a_rate_holds_over_all_workers(app: queen.App) -> None:
    began: list[int] = []
    others = [queen.App(app._url) for _ in range(2)]
    for one in (app, *others):
        one.limit("slow", 4, per=2)

        @one.task(queue="slow")
        async def go(number: int) -> None:
            began.append(number)

    for number in range(10):
        await app.tasks["go"].push(number)
    running = [asyncio.create_task(one.run(signals=False)) for one in (app, *others)]
    await eventually(lambda: len(began) == 10, limit=55)
    for one in (app, *others):
        one.stop()
    await asyncio.gather(*running)
    for one in others:
        await one.close()
    permits = await (await app.opened()).pop("rates", group="look", batch=100)
    windows = Counter(message.transaction_id.partition(":")[0] for message in permits)
    assert sum(windows.values()) >= 10
    assert max(windows.values()) <= 4
    assert sorted(began) == list(range(10))


def test_ticks_are_the_same_for_everybody() -> None:
    async def nothing() -> None: ...

    task = queen.App().task()(nothing)
    at = datetime(2026, 3, 29, 0, 59, 59, 900_000, tzinfo=UTC)
    assert Periodic(task, "10s").next(at) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert Periodic(task, "10s").next(at + timedelta(seconds=3)) == datetime(2026, 3, 29, 1, 0, 10, tzinfo=UTC)
    assert Periodic(task, "*/5 * * * *").next(at) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    with pytest.raises(ValueError, match="cron line"):
        Periodic(task, "now and then")


def test_what_cannot_be_a_task_is_refused_with_what_to_write() -> None:
    app = queen.App()

    async def many(*args: int) -> None: ...

    async def taken(partition: str) -> None: ...

    async def generates() -> AsyncIterator[int]:
        yield 1

    async def argued(number: int) -> None: ...

    with pytest.raises(TypeError, match="travel by name"):
        app.task()(many)
    with pytest.raises(TypeError, match="which push takes itself"):
        app.task()(taken)
    with pytest.raises(TypeError, match="generator"):
        app.task()(generates)
    with pytest.raises(TypeError, match="must take no arguments"):
        app.every("1m")(argued)
    with pytest.raises(TypeError, match="no name of its own"):
        app.task()(functools.partial(argued, number=1))
    app.task(name="other")(argued)
    with pytest.raises(TypeError, match="two tasks named other"):
        app.task(name="other")(many)
    with pytest.raises(TypeError, match="missing a required argument"):
        app.tasks["other"].push()
    with pytest.raises(TypeError, match="is no option"):
        app.tasks["other"].using(prtition="x")
    with pytest.raises(queen.InvalidRequest):
        queen.Backoff(attempts=0)


async def test_an_unknown_queue_of_a_worker_is_refused(app: queen.App) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    with pytest.raises(queen.InvalidRequest, match="did you mean mail"):
        await app.run(queues=["mial"])


async def test_a_push_in_the_callers_transaction(database: str) -> None:
    import asyncpg

    async with queen.App(database) as app:

        @app.task()
        async def send(to: str) -> None: ...

        connection = await asyncpg.connect(database)
        async with connection.transaction():
            await send.using(connection=connection).push("a")
        client = await app.opened()
        assert len(await client.pop("tasks", partitions=100, batch=10)) == 1
        await connection.close()


def test_a_push_without_an_event_loop(database: str) -> None:
    app = queen.App(database)

    @app.task()
    def send(to: str) -> None: ...

    assert send.push_sync("a", partition="p").status == "queued"
    with queen.connect_sync(database) as q:
        (message,) = q.pop("tasks")
        assert message.data == {"task": "send", "args": {"to": "a"}}
