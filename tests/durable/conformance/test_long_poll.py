from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from queen.durable.model import CapabilityFilter, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import LOCK_MS, begin, completed, fetch_task, raised, start, task, timer, told
from tests.durable.stores import Address, ManualClock, only_by_notice, parked
from tests.support.wait import eventually

LONG_MS = 20_000


@pytest.fixture
async def real(address: Address, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    """A provider on real time."""
    only_by_notice(monkeypatch)
    async with await address.open() as opened:
        yield opened


async def elapsed(provider: Provider, poll_ms: int) -> float:
    began = time.monotonic()
    assert await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=poll_ms) == []
    assert await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=poll_ms) == []
    return time.monotonic() - began


async def test_without_a_time_to_wait_the_answer_comes_at_once(real: Provider) -> None:
    await elapsed(real, 0)
    assert await elapsed(real, 0) < 10


async def test_an_empty_poll_lasts_its_time_and_not_much_longer(real: Provider) -> None:
    assert 0.4 <= await elapsed(real, 200) < 15


async def test_a_message_ends_the_wait(real: Provider) -> None:
    waiting = asyncio.create_task(real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    await parked(real, 1)
    await real.enqueue_for_orchestrator(start("a"))
    async with asyncio.timeout(15):
        [item] = await waiting
    assert item.instance == "a"


async def test_the_work_a_turn_makes_ends_the_waits_of_both_queues(real: Provider) -> None:
    await real.enqueue_for_orchestrator(start("a"))
    [item] = await real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS)
    tasks = asyncio.create_task(real.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    turns = asyncio.create_task(real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    await parked(real, 2)
    commit = TurnCommit(execution_id=1, metadata=told(), worker_items=(task("a", 2),))
    await real.ack_orchestration_item(item.token, commit)
    async with asyncio.timeout(15):
        [found] = await tasks
    await real.ack_work_item(found.token, completed("a"))
    async with asyncio.timeout(15):
        [item] = await turns
    assert item.messages == [completed("a")]


async def test_a_message_that_arrived_during_the_turn_ends_the_wait_after_it(real: Provider) -> None:
    await begin(real, "a")
    await real.enqueue_for_orchestrator(raised("a", "1"))
    [item] = await real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS)
    waiting = asyncio.create_task(real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    await parked(real, 1)
    await real.enqueue_for_orchestrator(raised("a", "2"))
    await parked(real, 1)
    await real.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    async with asyncio.timeout(15):
        [item] = await waiting
    assert item.messages == [raised("a", "2")]


async def test_a_timer_ends_the_wait_when_it_is_due(real: Provider) -> None:
    due = real.now_ms() + 300
    await begin(real, "a", orchestrator_items=[timer("a", due)])
    async with asyncio.timeout(15):
        [item] = await real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS)
    assert item.messages == [timer("a", due)]
    assert 0 <= real.now_ms() - due < 15_000


async def test_a_sooner_timer_shortens_a_wait_that_has_begun(real: Provider) -> None:
    await begin(real, "late", orchestrator_items=[timer("late", real.now_ms() + 60_000)])
    waiting = asyncio.create_task(real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    await parked(real, 1)
    await real.enqueue_for_orchestrator(start("soon"), delay_ms=200)
    async with asyncio.timeout(15):
        [item] = await waiting
    assert item.instance == "soon"


async def test_an_expiring_lock_ends_the_wait(real: Provider) -> None:
    await real.enqueue_for_worker(task("a", 2))
    await fetch_task(real, lock_ms=300)
    async with asyncio.timeout(15):
        [again] = await real.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS)
    assert again.attempt == 2


async def test_work_of_another_provider_object_ends_the_wait(real: Provider, address: Address) -> None:
    async with await address.open() as other:
        for name in ("a", "b", "c"):
            turns = asyncio.create_task(
                real.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS)
            )
            tasks = asyncio.create_task(real.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
            await parked(real, 2)
            await other.enqueue_for_orchestrator(start(name))
            await other.enqueue_for_worker(task(name, 2))
            async with asyncio.timeout(15):
                [item], [found] = await turns, await tasks
            await real.abandon_work_item(found.token, delay_ms=60_000)
            await real.abandon_orchestration_item(item.token, delay_ms=60_000)


async def settled(provider: Provider) -> list[float]:
    """How long waits for nothing lasted, up to one that lasted as long as it was told to.

    A wait may end early, as when the store has only just been opened here or by another, but not for ever.
    """
    lasted: list[float] = []
    while not lasted or lasted[-1] < 0.09:
        began = time.monotonic()
        await provider.wait_for_change("nobody", timeout_ms=100)
        lasted.append(time.monotonic() - began)
        assert len(lasted) < 10
    return lasted


async def test_waiting_for_an_instance_ends_when_its_turn_is_committed(real: Provider, address: Address) -> None:
    async with await address.open() as other:
        for committer in (real, other):
            await settled(real)
            change = asyncio.create_task(real.wait_for_change("a", timeout_ms=LONG_MS))
            await eventually(lambda: real._changes.waiting() == ["a"])  # type: ignore[attr-defined]
            await committer.enqueue_for_orchestrator(start("a"))
            [item] = await committer.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=2_000)
            await committer.ack_orchestration_item(item.token, TurnCommit(execution_id=1, metadata=told()))
            async with asyncio.timeout(15):
                await change


async def test_waiting_for_an_instance_has_a_limit(real: Provider) -> None:
    assert max(await settled(real)) < 15


async def test_closing_ends_every_wait(address: Address) -> None:
    provider = await address.open()
    waits = [
        asyncio.create_task(provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS)),
        asyncio.create_task(provider.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS)),
    ]
    await parked(provider, 2)
    await provider.close()
    async with asyncio.timeout(15):
        assert await asyncio.gather(*waits) == [[], []]


async def test_a_clock_moved_by_hand_is_noticed_when_told(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", orchestrator_items=[timer("a", clock() + 3_600_000)])
    waiting = asyncio.create_task(provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=LONG_MS))
    await parked(provider, 1)
    clock.advance(3_600_000)
    provider.wake()
    async with asyncio.timeout(15):
        assert len(await waiting) == 1


async def test_work_that_is_filtered_out_does_not_make_a_fetch_spin(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", metadata=told(pinned_version="1.0.0"))
    await provider.enqueue_for_orchestrator(raised("a"))
    await provider.enqueue_for_worker(task("a", 2, session_id="s"))
    clock.looks = 0
    items, tasks = await asyncio.gather(
        provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=400, capability=CapabilityFilter()),
        provider.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=400),
    )
    assert (items, tasks) == ([], [])
    assert clock.looks < 40
