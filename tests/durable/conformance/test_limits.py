"""Limits: places are given first come, first served, never more than there are, and come back whatever ends a run."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from queen.durable.limits import Limit, Place
from queen.durable.messages import ActivityTask
from queen.durable.model import ActivityKey, LockedTask, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import LOCK_MS, begin, fetch, raised
from tests.durable.stores import ManualClock, parked


def limited(number: int, place: Place, instance: str = "i") -> ActivityTask:
    return ActivityTask(instance=instance, execution_id=1, activity_id=number, name="work", input="1", place=place)


async def take(provider: Provider, limit: int = 10) -> list[LockedTask]:
    return await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=limit)


def ids(found: list[LockedTask]) -> list[int]:
    return [each.task.activity_id for each in found]


TWO = Place(group="g", concurrency=2)
THREE_A_SECOND = Place(group="g", rate=3, per_ms=1000)


async def test_at_most_so_many_at_once_in_order(provider: Provider) -> None:
    for number in range(1, 6):
        await provider.enqueue_for_worker(limited(number, TWO))
    first = await take(provider)
    assert ids(first) == [1, 2]
    assert await take(provider) == []
    await provider.ack_work_item(first[1].token)
    assert ids(await take(provider)) == [3]
    await provider.ack_work_item(first[0].token)
    assert ids(await take(provider)) == [4]


async def test_groups_do_not_hold_each_other_up(provider: Provider) -> None:
    for number in range(1, 4):
        await provider.enqueue_for_worker(limited(number, Place(group="a", concurrency=1)))
        await provider.enqueue_for_worker(limited(number, Place(group="b", concurrency=1), instance="j"))
    await provider.enqueue_for_worker(ActivityTask(instance="k", execution_id=1, activity_id=1, name="work", input="1"))
    assert sorted(each.task.instance for each in await take(provider)) == ["i", "j", "k"]


async def test_a_place_outlives_its_holder_and_is_taken_up_by_the_next(provider: Provider, clock: ManualClock) -> None:
    one = Place(group="g", concurrency=1)
    for number in (1, 2):
        await provider.enqueue_for_worker(limited(number, one))
    assert ids(await take(provider)) == [1]
    clock.advance(LOCK_MS - 1)
    assert await take(provider) == [], "the holder may still be at work"
    clock.advance(2)
    (again,) = await take(provider)
    assert (again.task.activity_id, again.attempt) == (1, 2)
    await provider.ack_work_item(again.token)
    assert ids(await take(provider)) == [2]


async def test_what_is_given_back_keeps_its_place(provider: Provider) -> None:
    one = Place(group="g", concurrency=1)
    for number in (1, 2):
        await provider.enqueue_for_worker(limited(number, one))
    (held,) = await take(provider)
    await provider.abandon_work_item(held.token)
    assert ids(await take(provider)) == [1]


async def test_what_is_cancelled_or_deleted_gives_its_place_up(provider: Provider) -> None:
    await begin(provider, "i")
    await begin(provider, "j")
    one = Place(group="g", concurrency=1)
    for number, instance in ((1, "i"), (2, "i"), (3, "j"), (4, "k")):
        await provider.enqueue_for_worker(limited(number, one, instance))
    assert ids(await take(provider)) == [1]
    await provider.enqueue_for_orchestrator(raised("i"))
    item = await fetch(provider)
    both = tuple(ActivityKey("i", 1, number) for number in (1, 2))
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, cancelled_activities=both))
    assert ids(await take(provider)) == [3], "the one that waited is gone, the one that ran made room"
    await provider.delete_instance("j", force=True)
    assert ids(await take(provider)) == [4]


async def test_at_most_so_many_starts_in_any_time(provider: Provider, clock: ManualClock) -> None:
    begun = clock.now
    for number in range(1, 9):
        await provider.enqueue_for_worker(limited(number, THREE_A_SECOND))
    started: list[int] = []
    while len(started) < 8:
        taken = await take(provider, limit=1)
        started += [clock.now - begun] * len(taken)
        clock.advance(100)
    assert started[:4] == [0, 100, 200, 1000]
    assert all(later - earlier >= 1000 for earlier, later in zip(started, started[3:], strict=False))
    assert started[-1] == 2100, "and not later than needed"


async def test_a_start_that_came_late_holds_the_next_one_back(provider: Provider, clock: ManualClock) -> None:
    once = Place(group="g", rate=1, per_ms=1000)
    for number in (1, 2, 3):
        await provider.enqueue_for_worker(limited(number, once))
    assert ids(await take(provider)) == [1]
    clock.advance(1900)
    assert ids(await take(provider)) == [2]
    clock.advance(999)
    assert await take(provider) == []
    clock.advance(1)
    assert ids(await take(provider)) == [3]


async def test_both_limits_hold_together(provider: Provider, clock: ManualClock) -> None:
    both = Place(group="g", concurrency=1, rate=2, per_ms=1000)
    for number in range(1, 5):
        await provider.enqueue_for_worker(limited(number, both))
    (one,) = await take(provider)
    await provider.ack_work_item(one.token)
    (two,) = await take(provider)
    assert await take(provider) == []
    await provider.ack_work_item(two.token)
    assert await take(provider) == []
    clock.advance(1000)
    assert ids(await take(provider)) == [3]


async def test_a_limit_that_is_changed_counts_from_then_on(provider: Provider) -> None:
    for number in range(1, 4):
        await provider.enqueue_for_worker(limited(number, Place(group="g", concurrency=1)))
    (one,) = await take(provider)
    await provider.enqueue_for_worker(limited(4, Place(group="g", concurrency=3)))
    assert await take(provider) == [], "who came before goes first, under the limit it came with"
    await provider.ack_work_item(one.token)
    (two,) = await take(provider)
    await provider.ack_work_item(two.token)
    assert ids(await take(provider)) == [3, 4]


async def test_who_waits_for_a_place_is_told(provider: Provider) -> None:
    one = Place(group="g", concurrency=1)
    for number in (1, 2):
        await provider.enqueue_for_worker(limited(number, one))
    (held,) = await take(provider)
    waiting = asyncio.create_task(provider.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=20_000, limit=10))
    await parked(provider, 1)
    await provider.ack_work_item(held.token)
    async with asyncio.timeout(15):
        assert ids(await waiting) == [2]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (dict[str, int](), "needs a concurrency, a rate, or both"),
        ({"concurrency": 0}, "concurrency must be 1 to 10000, got 0"),
        ({"rate": 10_001}, "rate must be 1 to 10000, got 10001"),
        ({"rate": 1, "per": timedelta(0)}, "per must be at least a millisecond"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(made: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Limit(**made)  # type: ignore[arg-type]
