"""Long polls: woken at once, never asleep on waiting work, and always answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest

from queen.db.pool import Database
from queen.engine import Engine
from queen.engine.waiting import Offer, Waiter, Waiters
from queen.ids import uuid7
from queen.model import QUEUE_MODE, Message, PopRequest
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, acks, connect, count_calls, lease_of, message, numbers, pop, push

# Far below the poll interval of a patient engine: only a wake-up can answer in that time.
WOKEN = 10
FOUND = Message("q", "p", 1, "g", 1, uuid7(), "t", "1", datetime.now(UTC))


@pytest.fixture
async def patient(database: str) -> AsyncIterator[Engine]:
    """An engine that polls so rarely that only a wake-up can be what answered in time."""
    async with Engine(Database(database), listen_url=database, poll=30) as engine:
        await eventually(lambda: engine._listener is not None and engine._listener.connected)
        yield engine


async def parked(engine: Engine, queue: str = "q") -> None:
    """Wait until a pop waits."""
    await eventually(lambda: engine.parked.get(queue))


async def test_a_push_of_the_same_process_wakes_at_once(patient: Engine) -> None:
    waiting = asyncio.create_task(pop(patient, wait=20))
    await parked(patient)
    await push(patient, 1)
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


async def test_a_push_of_another_process_wakes_at_once(patient: Engine, engine: Engine) -> None:
    await push(engine, 0)
    await patient.ack_messages(await pop(patient))
    waiting = asyncio.create_task(pop(patient, wait=20))
    await parked(patient)
    await push(engine, 1)
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


async def test_sql_push_wakes_too(patient: Engine, sql: Sql) -> None:
    await push(patient, 0)
    await patient.ack_messages(await pop(patient))
    waiting = asyncio.create_task(pop(patient, wait=20))
    await parked(patient)
    await sql.execute("select queen.push('q', 'p', '{\"n\": 1}')")
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


@pytest.mark.parametrize("how", ["ack", "whole ack", "release", "retry", "seek", "resume", "redrive"])
async def test_whatever_makes_work_ready_wakes(patient: Engine, how: str) -> None:
    from queen.engine import Selection

    await push(patient, 1, 2)
    got = await pop(patient, 1)
    if how == "redrive":
        await patient.ack(acks(got, "dlq"))
        await patient.ack(acks(await pop(patient)))
    if how == "resume":
        await patient.queues.pause("q")
    waiting = asyncio.create_task(pop(patient, 1, wait=20))
    await parked(patient)
    if how == "ack":
        await patient.ack(acks(got))
    elif how == "whole ack":
        await patient.ack_messages(got)
    elif how == "release":
        await patient.release([lease_of(got)])
    elif how == "retry":
        await patient.ack(acks(got, "retry"))
    elif how == "seek":
        await patient.queues.seek("q", "__QUEUE_MODE__", "start")
    elif how == "redrive":
        await patient.dead_letters.redrive(Selection(queue="q"))
    else:
        await patient.queues.pause("q", paused=False)
        await patient.release([lease_of(got)])
    assert len(await asyncio.wait_for(waiting, WOKEN)) == 1


async def test_without_listen_polling_is_the_truth(database: str, engine: Engine) -> None:
    async with Engine(Database(database), listen_url=None, poll=0.2) as deaf:
        await push(engine, 0)
        await deaf.ack_messages(await pop(deaf))
        waiting = asyncio.create_task(pop(deaf, wait=20))
        await parked(deaf)
        await push(engine, 1)
        assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


async def test_an_expiring_lease_needs_no_wake_up(patient: Engine) -> None:
    await push(patient, 1)
    await pop(patient, lease_seconds=1)
    assert numbers(await asyncio.wait_for(pop(patient, wait=20), WOKEN)) == [1]


async def test_a_delay_that_passes_needs_no_wake_up(patient: Engine) -> None:
    await patient.queues.configure("q", {"delayed_processing": 1})
    waiting = asyncio.create_task(pop(patient, wait=20))
    await parked(patient)
    await push(patient, 1)
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


async def test_a_push_in_flight_is_found_soon_after_its_commit(patient: Engine, database: str) -> None:
    """Its transaction began before the pop that found nothing; the notification comes with its commit."""
    await push(patient, 1)
    await patient.ack_messages(await pop(patient))
    async with connect(database) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
        assert await pop(patient) == []
        waiting = asyncio.create_task(pop(patient, wait=20))
        await parked(patient)
        await transaction.commit()
        assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [2]


@pytest.mark.parametrize("how", ["ack", "whole ack"])
async def test_an_ack_beside_an_open_push_loses_no_wake_up(patient: Engine, database: str, how: str) -> None:
    """The push saw a lease when it looked for whom to wake, the ack does not see the push."""
    await push(patient, 1)
    got = await pop(patient)
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
        await (patient.ack(acks(got)) if how == "ack" else patient.ack_messages(got))
    assert numbers(await asyncio.wait_for(pop(patient, wait=20), WOKEN)) == [2]


async def test_the_wait_ends_when_it_said(patient: Engine) -> None:
    """By its own time, not with the next poll."""
    started = time.monotonic()
    assert await pop(patient, wait=0.3) == []
    assert 0.25 < time.monotonic() - started < WOKEN


async def test_many_waiters_share_what_comes_first_come_first_served(patient: Engine) -> None:
    await push(patient, 0)
    await patient.ack_messages(await pop(patient))
    waiting = [asyncio.create_task(pop(patient, 1, wait=20)) for _ in range(100)]
    await eventually(lambda: patient.parked.get("q") == 100)
    [waiters] = patient._popper._waiters.values()
    await eventually(lambda: len(waiters._waiting) == 100)  # each was told that there is nothing
    await patient.push([message(n, partition=str(n)) for n in range(40)])
    await eventually(lambda: sum(task.done() for task in waiting) == 40)
    assert all(task.done() for task in waiting[:40]), "somebody was served before one who had waited longer"
    got = [task.result() for task in waiting if task.done()]
    assert sorted(n for batch in got for n in numbers(batch)) == list(range(40))
    await patient.push([message(n, partition=str(n)) for n in range(40, 100)])
    await asyncio.wait_for(asyncio.gather(*waiting), WOKEN)


@pytest.mark.parametrize("again", [False, True], ids=["nothing more", "something came meanwhile"])
async def test_who_got_nothing_keeps_its_place(again: bool) -> None:
    """A wake-up with too little for those it asks puts nobody behind those it did not ask, nor behind newcomers."""
    served: list[int] = []
    stored: list[int] = []

    async def offer(batch: Sequence[Waiter]) -> Offer:
        given = min(len(stored), len(batch))
        del stored[:given]
        served.extend(waiter.request.batch for waiter in batch[:given])
        found = [[FOUND] if place < given else [] for place in range(len(batch))]
        return Offer(found=found, next_in=None, again=again and given > 0, queue_id=1)

    async def give_back(_: Waiter) -> None:
        raise AssertionError("everybody is still there")

    waiters = Waiters(offer, give_back, lambda: None, lambda: False, poll=30)
    calls: list[asyncio.Task[list[Message]]] = []
    for _ in range(10):
        for _ in range(40):  # more than one wake-up asks for
            request = PopRequest(queue="q", batch=len(calls) + 1, wait=20)
            calls.append(asyncio.create_task(waiters.ask(request)))
        await eventually(lambda: len(waiters._waiting) + len(served) == len(calls))
        stored.extend(range(7))
        waiters.wake()
        await eventually(lambda: not stored and not waiters._calls and not waiters._fresh)
    assert served == list(range(1, 71))
    waiters.dismiss()
    await asyncio.gather(*calls)


async def test_a_caller_that_goes_away_leaves_no_lease(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    for _ in range(10):
        task = asyncio.create_task(pop(engine, wait=5))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    held = "select count(*) = 0 from queen.partition_consumers where lease_id is not null"
    await eventually(lambda: sql.fetchval(held))
    assert numbers(await pop(engine, wait=5)) == [1]


async def test_a_caller_that_goes_away_as_its_answer_comes_leaves_no_lease() -> None:
    """The answer is there, but the caller is cancelled before it gets to read it."""
    loop, returned = asyncio.get_running_loop(), list[Waiter]()

    async def offer(parked: Sequence[Waiter]) -> Offer:
        loop.call_soon(caller.cancel)
        return Offer(found=[[FOUND] for _ in parked], next_in=None, again=False, queue_id=1)

    async def give_back(waiting: Waiter) -> None:
        returned.append(waiting)

    waiters = Waiters(offer, give_back, lambda: None, lambda: False, poll=30)
    caller = asyncio.create_task(waiters.ask(PopRequest(queue="q")))
    with pytest.raises(asyncio.CancelledError):
        await caller
    await waiters.drain()
    assert len(returned) == 1


@pytest.mark.parametrize(("acking", "sizes"), [(False, [32, 32]), (True, [64])], ids=["nothing else", "acks"])
async def test_many_waiters_share_few_calls(acking: bool, sizes: list[int]) -> None:
    """Two calls are under way at most, acks included; many that come to an idle database are split over both."""
    asked: list[int] = []
    both = asyncio.Event()

    async def offer(parked: Sequence[Waiter]) -> Offer:
        asked.append(len(parked))
        if asked == sizes:
            both.set()
        await both.wait()
        return Offer(found=[[] for _ in parked], next_in=None, again=False, queue_id=1)

    async def give_back(_: Waiter) -> None:
        raise AssertionError("nothing was handed out")

    waiters = Waiters(offer, give_back, lambda: None, lambda: acking, poll=30)
    answers = asyncio.gather(*(waiters.ask(PopRequest(queue="q")) for _ in range(64)))
    assert await asyncio.wait_for(answers, 10) == [[]] * 64
    assert asked == sizes


async def test_stopping_answers_everyone_at_once(engine: Engine) -> None:
    waiting = [asyncio.create_task(pop(engine, wait=60)) for _ in range(20)]
    await parked(engine)
    await asyncio.wait_for(engine.stop(), 5)
    assert [task.result() for task in waiting] == [[]] * 20
    assert await pop(engine, wait=60) == []


async def test_a_notification_lost_with_the_connection_costs_a_poll_at_most(engine: Engine, sql: Sql) -> None:
    await push(engine, 0)
    await engine.ack_messages(await pop(engine))
    waiting = asyncio.create_task(pop(engine, wait=20))
    await parked(engine)
    await sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'queen-listen'")
    await sql.execute("select queen.push('q', 'p', '{\"n\": 1}')")
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [1]


async def test_waiting_on_a_queue_with_a_clock_ahead(engine: Engine, clock: Clock) -> None:
    """What the process thinks of the time does not matter, only the database's clock does."""
    await clock.advance(86_400)
    await push(engine, 1)
    await pop(engine, lease_seconds=1)
    assert numbers(await asyncio.wait_for(pop(engine, wait=20), WOKEN)) == [1]


async def test_asking_a_stopped_engine_again_and_again_lets_others_run(engine: Engine) -> None:
    await engine.stop()
    others = asyncio.Event()
    asyncio.get_running_loop().call_soon(others.set)
    for _ in range(100):
        assert await pop(engine, wait=0.05) == []
    assert others.is_set()


async def test_a_long_poll_on_a_partition_that_is_held_does_not_spin(
    engine: Engine, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It backs off while a transaction holds the partition's row, and is there soon after."""
    await push(engine, 1)
    await engine.register("q", QUEUE_MODE)
    calls = count_calls(engine, monkeypatch)
    async with connect(database) as holder:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("select from queen.partition_consumers for no key update")
        waiting = asyncio.create_task(pop(engine, partition="p", wait=30))
        await eventually(lambda: calls["engine/pop"] >= 6)
        started, before = time.monotonic(), calls["engine/pop"]
        await asyncio.wait([waiting], timeout=1)
        assert (calls["engine/pop"] - before) / (time.monotonic() - started) <= 4
        await transaction.commit()
    assert numbers(await asyncio.wait_for(waiting, 10)) == [1]


@pytest.mark.parametrize("where", ["any partition", "one partition"])
async def test_many_that_take_single_messages_share_calls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Sixty-four that pop and acknowledge one message each, again and again."""
    calls = count_calls(engine, monkeypatch)
    only = {"partition": "p0"} if where == "one partition" else {}
    await engine.push([message(number, partition=f"p{number % 64}") for number in range(640)])

    async def work() -> int:
        done = 0
        while got := await pop(engine, 1, **only):
            done += len(await engine.ack_messages(got))
        return done

    done = sum(await asyncio.gather(*(work() for _ in range(64))))
    assert done == (10 if only else 640)
    assert calls["engine/pop"] + calls["engine/ack_leases"] <= (60 if only else 160)


async def test_a_wake_up_during_a_look_makes_it_look_again() -> None:
    """The look may have missed what the wake-up is about, and nothing else tells of it before the next poll."""
    looks = 0

    async def offer(parked: Sequence[Waiter]) -> Offer:
        nonlocal looks
        looks += 1
        if looks == 1:
            waiters.wake()
            for _ in range(5):  # others run, so that the wake-up finds nobody who waits
                await asyncio.sleep(0)
        return Offer(found=[[FOUND] if looks > 1 else [] for _ in parked], next_in=None, again=False, queue_id=1)

    async def give_back(_: Waiter) -> None:
        raise AssertionError("nobody went away")

    waiters = Waiters(offer, give_back, lambda: None, lambda: False, poll=600)
    assert await asyncio.wait_for(waiters.ask(PopRequest(queue="q", wait=300)), WOKEN) == [FOUND]


async def test_an_ack_of_the_last_message_wakes_nobody(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await push(patient, 1)
    got = await pop(patient)
    waiting = asyncio.create_task(pop(patient, wait=20))
    await eventually(lambda: any(waiters._waiting for waiters in patient._popper._waiters.values()))
    calls = count_calls(patient, monkeypatch)
    await patient.ack_messages(got)
    await push(patient, 2)
    assert numbers(await asyncio.wait_for(waiting, WOKEN)) == [2]
    assert calls["engine/pop"] == 1


async def test_a_process_does_not_hear_its_own_notifications(
    patient: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits here was told before; to ask again would be a call for nothing."""
    heard, told = list[str | None](), list[int | None]()
    hear = patient.wake.heard

    def note(payload: str | None) -> None:
        heard.append(payload)
        hear(payload)

    monkeypatch.setattr(patient._listener, "_heard", note)
    patient.wake.subscribe(lambda _, queue_id: told.append(queue_id))
    await push(patient, 1)
    await eventually(lambda: len(heard) == 1)
    assert len(told) == 1
    await push(engine, 2, partition="other")
    await eventually(lambda: len(heard) == 2)
    assert len(told) == 2


async def test_who_comes_right_after_an_empty_answer_asks_within_a_moment() -> None:
    """It waits with those who were told that there is nothing; without a wake-up all of them ask once more, soon."""
    loop, asked = asyncio.get_running_loop(), list[int]()

    async def offer(parked: Sequence[Waiter]) -> Offer:
        asked.append(len(parked))
        found = [[FOUND]] if len(asked) == 3 else [[]]
        return Offer(found=[*found, *[[] for _ in parked[1:]]], next_in=None, again=False, queue_id=1)

    async def give_back(_: Waiter) -> None:
        raise AssertionError("nothing was handed out")

    waiters = Waiters(offer, give_back, lambda: None, lambda: False, poll=30)
    first = asyncio.create_task(waiters.ask(PopRequest(queue="q", wait=20)))
    await eventually(lambda: asked == [1])
    started = loop.time()
    second = asyncio.create_task(waiters.ask(PopRequest(queue="q", wait=20)))
    await eventually(lambda: len(asked) > 1)
    assert asked[1] in (1, 2)
    assert loop.time() - started < WOKEN
    waiters.wake()
    await eventually(lambda: first.done() or second.done())
    waiters.dismiss()
    await asyncio.gather(first, second)


async def test_who_may_not_wait_asks_at_once() -> None:
    asked: list[int] = []

    async def offer(parked: Sequence[Waiter]) -> Offer:
        asked.append(len(parked))
        return Offer(found=[[] for _ in parked], next_in=None, again=False, queue_id=1)

    async def give_back(_: Waiter) -> None:
        raise AssertionError("nothing was handed out")

    waiters = Waiters(offer, give_back, lambda: None, lambda: False, poll=30)
    for _ in range(5):
        assert await waiters.ask(PopRequest(queue="q")) == []
    assert asked == [1] * 5
