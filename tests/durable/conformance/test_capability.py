from __future__ import annotations

import asyncio

import pytest

from queen.durable.model import CapabilityFilter, TurnCommit, VersionRange
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    continue_as_new,
    fetch,
    finish,
    nothing_to_fetch,
    raised,
    scheduled,
    start,
    told,
    turn,
)
from tests.durable.stores import Address


def supports(*ranges: tuple[str, str]) -> CapabilityFilter:
    return CapabilityFilter(tuple(VersionRange(*bounds) for bounds in ranges))


OLD = supports(("1.0.0", "1.9.9"))
NEW = supports(("2.0.0", "2.9.9"))


async def pinned(provider: Provider, instance: str, version: str | None) -> None:
    await begin(provider, instance, metadata=told(pinned_version=version))
    await provider.enqueue_for_orchestrator(raised(instance))


async def test_without_filter_everything_is_fetched(provider: Provider) -> None:
    await pinned(provider, "a", "9.0.0")
    assert (await fetch(provider)).instance == "a"


async def test_compatible_is_fetched_incompatible_is_not(provider: Provider) -> None:
    await pinned(provider, "a", "1.4.0")
    assert await nothing_to_fetch(provider, capability=NEW)
    assert (await fetch(provider, capability=OLD)).instance == "a"


async def test_an_incompatible_head_does_not_hide_what_is_behind_it(provider: Provider) -> None:
    await begin(provider, "old", metadata=told(pinned_version="1.0.0"))
    await begin(provider, "new", metadata=told(pinned_version="2.0.0"))
    for instance in ("old", "new"):
        await provider.enqueue_for_orchestrator(raised(instance))
    items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=5, capability=NEW)
    assert [item.instance for item in items] == ["new"]


async def test_what_is_skipped_is_neither_locked_nor_counted(provider: Provider) -> None:
    await pinned(provider, "a", "1.0.0")
    for _ in range(3):
        assert await nothing_to_fetch(provider, capability=NEW)
    assert (await fetch(provider, capability=OLD)).attempt == 1


async def test_no_pinned_version_passes_every_filter(provider: Provider) -> None:
    await pinned(provider, "a", None)
    assert (await fetch(provider, capability=NEW)).instance == "a"
    await provider.enqueue_for_orchestrator(start("fresh"))
    assert (await fetch(provider, capability=NEW)).instance == "fresh"


@pytest.mark.parametrize(("version", "fits"), [("1.9.9", False), ("2.0.0", True), ("2.9.9", True), ("2.10.0", False)])
async def test_bounds_are_inclusive(provider: Provider, version: str, fits: bool) -> None:
    await pinned(provider, "a", version)
    assert await nothing_to_fetch(provider, capability=NEW) is not fits


async def test_several_ranges_all_count(provider: Provider) -> None:
    await pinned(provider, "a", "3.1.0")
    both = supports(("1.0.0", "1.9.9"), ("3.0.0", "3.9.9"))
    assert (await fetch(provider, capability=both)).instance == "a"


async def test_no_ranges_fetch_nothing_that_is_pinned(provider: Provider) -> None:
    await pinned(provider, "a", "1.0.0")
    assert await nothing_to_fetch(provider, capability=CapabilityFilter())


async def test_the_pinned_version_stays_until_another_is_given(provider: Provider) -> None:
    await begin(provider, "a", metadata=told(pinned_version="1.0.0"))
    await turn(provider, "a")
    await turn(provider, "a", metadata=told())
    [execution] = await provider.list_executions("a")
    assert execution.pinned_version == "1.0.0"
    await turn(provider, "a", metadata=told(pinned_version="2.0.0"))
    await provider.enqueue_for_orchestrator(raised("a"))
    assert await nothing_to_fetch(provider, capability=OLD)
    assert (await fetch(provider, capability=NEW)).instance == "a"


async def test_every_execution_has_its_own_pinned_version(provider: Provider) -> None:
    await begin(provider, "a", metadata=told(pinned_version="1.0.0"))
    await continue_as_new(provider, "a", 2)
    assert [one.pinned_version for one in await provider.list_executions("a")] == ["1.0.0", None]
    await provider.enqueue_for_orchestrator(raised("a"))
    assert (await fetch(provider, capability=NEW)).execution_id == 2


async def test_an_ended_instance_is_filtered_alike(provider: Provider) -> None:
    await begin(provider, "a", metadata=told(pinned_version="1.0.0"))
    await finish(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    assert await nothing_to_fetch(provider, capability=NEW)


async def test_two_filtered_fetchers_never_share_an_instance(provider: Provider) -> None:
    await begin(provider, "a", metadata=told(pinned_version="1.0.0"))
    await provider.enqueue_for_orchestrator(raised("a"))
    found = await asyncio.gather(
        *(provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, capability=OLD) for _ in range(4))
    )
    assert sum(map(len, found)) == 1


async def test_the_filter_comes_before_decoding(provider: Provider, address: Address) -> None:
    await pinned(provider, "a", "1.0.0")
    await address.execute("update {}history set data = ?", "garbage")
    assert await nothing_to_fetch(provider, capability=NEW)
    item = await fetch(provider, capability=OLD)
    assert item.attempt == 1


async def test_history_that_cannot_be_decoded_comes_with_the_error_and_counts(
    provider: Provider, address: Address
) -> None:
    await pinned(provider, "a", None)
    await address.execute("update {}history set data = ?", '{"kind":"FromTheFuture","event_id":1}')
    for attempt in (1, 2, 3):
        item = await fetch(provider)
        assert (item.attempt, item.history) == (attempt, [])
        assert item.history_error
        await provider.abandon_orchestration_item(item.token)


async def test_a_corrupted_instance_can_still_be_failed(provider: Provider, address: Address) -> None:
    await pinned(provider, "a", None)
    await address.execute("update {}history set data = ?", "garbage")
    item = await fetch(provider)
    commit = TurnCommit(
        execution_id=1, history_delta=(scheduled("a", 99),), metadata=told(status="Failed", output="broken")
    )
    await provider.ack_orchestration_item(item.token, commit)
    info = await provider.get_instance_info("a")
    assert info is not None
    assert info.status == "Failed"
