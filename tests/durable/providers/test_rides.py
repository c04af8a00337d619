"""A commit carries out the fetch that waits for what it makes, in the same transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from msgspec import structs

from queen.durable.model import TagFilter, TurnCommit
from queen.durable.provider import Provider
from queen.durable.providers.postgres.connection import Database as PostgresDatabase
from queen.durable.providers.sqlite.database import Database as SqliteDatabase
from queen.durable.providers.wake import Ride
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    completed,
    fetch,
    fetch_task,
    raised,
    refusal,
    scheduled,
    start,
    started,
    task,
    timer,
    told,
)
from tests.durable.stores import Address, only_by_notice, parked, signals_of

LONG_MS = 20_000


@pytest.fixture
async def real(address: Address, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    only_by_notice(monkeypatch)
    async with await address.open() as opened:
        yield opened


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call to the store, by name; notices and the watch over the file do not count."""
    seen: list[str] = []
    original, submit = PostgresDatabase.call, SqliteDatabase._submit

    async def call(self: PostgresDatabase, operation: str, statement: str, *parameters: Any) -> list[Any]:
        if statement != "notify":
            seen.append(statement)
        return await original(self, operation, statement, *parameters)

    async def counted(self: SqliteDatabase, name: str, *rest: Any, **more: Any) -> Any:
        if name != "watch":
            seen.append(name)
        return await submit(self, name, *rest, **more)

    monkeypatch.setattr(PostgresDatabase, "call", call)
    monkeypatch.setattr(SqliteDatabase, "_submit", counted)
    return seen


def turns(provider: Provider, **more: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(
        provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS, **more)
    )


def tasks(provider: Provider, **more: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(provider.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS, **more))


async def settled(provider: Provider, *waiting: asyncio.Task[Any]) -> None:
    """They wait, and nothing of before makes them look again: a change of the file is told late, and twice."""
    looks = -1
    while looks != (looks := sum(signal.news for signal in signals_of(provider))):
        await asyncio.sleep(0.3)
        await parked(provider, len(waiting))
    assert not any(one.done() for one in waiting)


async def soon(waiting: Awaitable[Any]) -> Any:
    async with asyncio.timeout(15):
        return await waiting


async def test_a_step_of_a_workflow_takes_two_calls(real: Provider, calls: list[str]) -> None:
    orchestrations, activities = turns(real, limit=4), tasks(real, limit=4)
    await settled(real, orchestrations, activities)
    calls.clear()
    await real.enqueue_for_orchestrator(start("a"))
    [item] = await soon(orchestrations)
    assert len(calls) == 1
    orchestrations = turns(real, limit=4)
    first = TurnCommit(
        execution_id=1,
        history_delta=(started("a"), scheduled("a", 2)),
        metadata=told(),
        worker_items=(task("a", 2),),
    )
    await real.ack_orchestration_item(item.token, first)
    [found] = await soon(activities)
    assert len(calls) == 2
    activities = tasks(real, limit=4)
    await real.ack_work_item(found.token, completed("a"))
    [item] = await soon(orchestrations)
    assert len(calls) == 3
    assert item.messages == [completed("a")]
    activities.cancel()
    await asyncio.gather(activities, return_exceptions=True)


async def test_more_than_the_fetch_can_take_is_left_for_the_next(real: Provider) -> None:
    await real.enqueue_for_orchestrator(start("a"))
    item = await fetch(real)
    waiting = tasks(real, limit=2)
    await settled(real, waiting)
    many = TurnCommit(execution_id=1, metadata=told(), worker_items=tuple(task("a", n) for n in range(5)))
    await real.ack_orchestration_item(item.token, many)
    found = await soon(waiting)
    found += await soon(tasks(real, limit=2))
    found += await soon(tasks(real, limit=2))
    assert [one.task.activity_id for one in found] == [0, 1, 2, 3, 4]


async def test_whoever_waits_for_another_kind_of_work_is_not_forgotten(real: Provider) -> None:
    await real.enqueue_for_orchestrator(start("a"))
    item = await fetch(real)
    plain, special = tasks(real), tasks(real, tags=TagFilter.only("gpu"))
    await settled(real, plain, special)
    both = TurnCommit(execution_id=1, metadata=told(), worker_items=(task("a", 2, tag="gpu"), task("a", 3)))
    await real.ack_orchestration_item(item.token, both)
    assert [one.task.activity_id for one in await soon(special)] == [2]
    assert [one.task.activity_id for one in await soon(plain)] == [3]


async def test_a_commit_that_is_refused_leaves_the_fetch_waiting(real: Provider) -> None:
    await begin(real, "a")
    await real.enqueue_for_orchestrator(raised("a"))
    item = await fetch(real)
    waiting = tasks(real)
    await settled(real, waiting)
    bad = TurnCommit(execution_id=1, history_delta=(started("a"),), worker_items=(task("a", 2),))
    assert await refusal(real.ack_orchestration_item(item.token, bad)) == "duplicate_event"
    await settled(real, waiting)
    good = TurnCommit(execution_id=1, worker_items=(task("a", 2),))
    await real.ack_orchestration_item(item.token, good)
    assert len(await soon(waiting)) == 1


async def test_a_lost_lock_leaves_the_fetch_waiting(real: Provider) -> None:
    waiting = tasks(real)
    await settled(real, waiting)
    commit = TurnCommit(execution_id=1, metadata=told(), worker_items=(task("a", 2),))
    assert await refusal(real.ack_orchestration_item("nobody's", commit)) == "lock_lost"
    await settled(real, waiting)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_what_was_fetched_for_someone_who_has_gone_is_given_back(real: Provider) -> None:
    for number in range(10):
        name = f"i{number}"
        waiting = turns(real)
        await parked(real, 1)
        sending = asyncio.create_task(real.enqueue_for_orchestrator(start(name)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await sending
        item = await soon(turns(real))
        assert (item[0].instance, item[0].attempt) == (name, 1)


async def test_a_commit_whose_caller_has_gone_still_brings_the_fetch(real: Provider) -> None:
    await real.enqueue_for_orchestrator(start("a"))
    item = await fetch(real)
    waiting = tasks(real)
    await settled(real, waiting)
    commit = TurnCommit(execution_id=1, metadata=told(), worker_items=(task("a", 2),))
    acking = asyncio.create_task(real.ack_orchestration_item(item.token, commit))
    await asyncio.sleep(0)
    acking.cancel()
    await asyncio.gather(acking, return_exceptions=True)
    assert len(await soon(waiting)) == 1


async def test_a_commit_whose_caller_has_gone_is_still_told(real: Provider) -> None:
    """Also when no fetch was waiting yet to be carried out."""
    await begin(real, "a", worker_items=[task("a", 2)])
    found = await fetch_task(real)
    acking = asyncio.create_task(real.ack_work_item(found.token, completed("a")))
    await asyncio.sleep(0)
    waiting = turns(real)
    await asyncio.sleep(0)
    acking.cancel()
    await asyncio.gather(acking, return_exceptions=True)
    assert len(await soon(waiting)) == 1


async def test_a_timer_in_the_future_costs_no_fetch(real: Provider, calls: list[str]) -> None:
    await begin(real, "a")
    await real.enqueue_for_orchestrator(raised("a"))
    item = await fetch(real)
    waiting = turns(real)
    await settled(real, waiting)
    calls.clear()
    due = real.now_ms() + 400
    await real.ack_orchestration_item(item.token, TurnCommit(execution_id=1, orchestrator_items=(timer("a", due),)))
    assert len(calls) == 1
    assert (await soon(waiting))[0].messages == [timer("a", due)]


async def test_high_priority_work_that_waits_is_not_overtaken(real: Provider) -> None:
    await real.enqueue_for_orchestrator(start("a"))
    item = await fetch(real)
    await real.enqueue_for_worker(task("z", 1, session_id="elsewhere", priority=5))
    waiting = tasks(real)
    await settled(real, waiting)
    commit = TurnCommit(execution_id=1, metadata=told(), worker_items=(task("a", 2), task("a", 3, priority=9)))
    await real.ack_orchestration_item(item.token, commit)
    assert [one.task.activity_id for one in await soon(waiting)] == [3]
    assert (await fetch_task(real)).task.activity_id == 2


async def test_what_a_fetch_is_given_while_it_is_cancelled_goes_back(
    real: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stops at that moment must not leave its locks to others as something to wait for."""
    waiting = turns(real)
    await settled(real, waiting)
    give = Ride.give

    def give_and_cancel(self: Ride, found: list[Any], due_ms: int | None) -> bool:
        taken = give(self, found, due_ms)
        waiting.cancel()
        return taken

    monkeypatch.setattr(Ride, "give", give_and_cancel)
    await real.enqueue_for_orchestrator(start("i"))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    monkeypatch.setattr(Ride, "give", give)
    (again,) = await soon(turns(real))
    assert (again.instance, again.attempt) == ("i", 1)


async def test_who_has_no_code_for_it_is_neither_taken_along_nor_woken(real: Provider, calls: list[str]) -> None:
    waiting = {name: tasks(real, names=(name,)) for name in ("a", "b")}
    for number, (name, other) in enumerate([("a", "b"), ("b", "a")], 1):
        await begin(real, f"i{number}")
        await settled(real, *waiting.values())
        wanted = structs.replace(task(f"i{number}", 1), name=name)
        await real.enqueue_for_orchestrator(raised(f"i{number}"))
        item = await fetch(real)
        calls.clear()
        await real.ack_orchestration_item(item.token, TurnCommit(execution_id=1, worker_items=(wanted,)))
        (got,) = await soon(waiting[name])
        assert got.task.name == name
        assert len(calls) == 1, "the commit carried the fetch of the one who has the code"
        await settled(real, waiting[other])
        assert len(calls) == 1, "and the other one slept on"
        waiting[name] = tasks(real, names=(name,))
    for one in waiting.values():
        one.cancel()
