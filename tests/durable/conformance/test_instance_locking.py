from __future__ import annotations

import asyncio

from queen.durable.model import TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    fetch,
    nothing_to_fetch,
    raised,
    refusal,
    start,
    started,
    told,
)
from tests.durable.stores import Address, ManualClock


async def test_one_holder_at_a_time(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await fetch(provider)
    assert await nothing_to_fetch(provider)


async def test_tokens_are_unique(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    tokens = set()
    for _ in range(5):
        item = await fetch(provider)
        tokens.add(item.token)
        await provider.abandon_orchestration_item(item.token)
    assert len(tokens) == 5


async def test_a_bad_token_is_refused_by_every_call(provider: Provider) -> None:
    commit = TurnCommit(execution_id=1, history_delta=(started("a"),), metadata=told())
    assert await refusal(provider.ack_orchestration_item("nobody's", commit)) == "lock_lost"
    assert await refusal(provider.abandon_orchestration_item("nobody's")) == "lock_lost"
    assert await refusal(provider.renew_orchestration_item_lock("nobody's", 1_000)) == "lock_lost"
    assert await provider.get_instance_info("a") is None


async def test_concurrent_fetchers_get_each_instance_exactly_once(provider: Provider) -> None:
    for number in range(12):
        await provider.enqueue_for_orchestrator(start(f"i{number}"))
    batches = await asyncio.gather(*(provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS) for _ in range(12)))
    found = [item.instance for batch in batches for item in batch]
    while more := await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS):
        found += [item.instance for item in more]
    assert sorted(found) == sorted(f"i{number}" for number in range(12))


async def test_a_message_that_arrives_during_a_turn_waits_for_its_end(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a", "1"))
    item = await fetch(provider)
    await provider.enqueue_for_orchestrator(raised("a", "2"))
    assert await nothing_to_fetch(provider)
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    assert (await fetch(provider)).messages == [raised("a", "2")]


async def test_locks_of_different_instances_are_independent(provider: Provider) -> None:
    for instance in ("a", "b"):
        await provider.enqueue_for_orchestrator(start(instance))
    first, second = await fetch(provider), await fetch(provider)
    assert {first.instance, second.instance} == {"a", "b"}
    await provider.abandon_orchestration_item(first.token)
    assert (await fetch(provider)).instance == first.instance


async def test_an_ack_deletes_only_its_own_messages(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a")
    for data in ("1", "2"):
        await provider.enqueue_for_orchestrator(raised("a", data))
    await provider.enqueue_for_orchestrator(raised("a", "later"), delay_ms=1_000)
    item = await fetch(provider)
    assert item.messages == [raised("a", "1"), raised("a", "2")]
    await provider.enqueue_for_orchestrator(raised("a", "3"))
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    second = await fetch(provider)
    assert second.messages == [raised("a", "3")]
    clock.advance(1_000)
    await provider.ack_orchestration_item(second.token, TurnCommit(execution_id=1))
    assert (await fetch(provider)).messages == [raised("a", "later")]


async def test_contending_providers_never_share_an_instance(address: Address) -> None:
    providers = [await address.open() for _ in range(3)]
    held: set[str] = set()
    turns = 0

    async def work(provider: Provider) -> None:
        nonlocal turns
        idle = 0
        while idle < 3:
            items = await provider.fetch_orchestration_items(lock_timeout_ms=30_000, limit=2)
            idle = 0 if items else idle + 1
            for item in items:
                assert item.instance not in held
                held.add(item.instance)
            await asyncio.sleep(0)
            for item in items:
                events = (started(item.instance),) if item.is_new else ()
                again = (raised(item.instance),) if item.is_new else ()
                held.discard(item.instance)
                await provider.ack_orchestration_item(
                    item.token,
                    TurnCommit(execution_id=1, history_delta=events, metadata=told(), orchestrator_items=again),
                )
                turns += 1

    try:
        for number in range(10):
            await providers[0].enqueue_for_orchestrator(start(f"i{number}"))
        await asyncio.gather(*(work(provider) for provider in providers))
        assert turns == 20
    finally:
        await asyncio.gather(*(provider.close() for provider in providers))


async def test_longest_waiting_first(provider: Provider, clock: ManualClock) -> None:
    for instance in ("c", "a", "b"):
        await provider.enqueue_for_orchestrator(start(instance))
        clock.advance(1)
    assert [(await fetch(provider)).instance for _ in range(3)] == ["c", "a", "b"]


async def test_a_fetch_that_was_cancelled_gives_back_what_it_locked(provider: Provider) -> None:
    for number in range(20):
        await provider.enqueue_for_orchestrator(start(f"i{number}"))
        fetching = asyncio.create_task(provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=20))
        await asyncio.sleep(0)
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=20)
        assert len(items) == number + 1
        assert all(item.attempt == 1 for item in items)
        for item in items:
            await provider.abandon_orchestration_item(item.token, ignore_attempt=True)
