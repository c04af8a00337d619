from __future__ import annotations

import pytest

from queen.durable.model import CapabilityFilter, ExecutionMetadata, PruneOptions, TagFilter, TurnCommit, VersionRange
from queen.durable.provider import Provider, ProviderError
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    fetch,
    fetch_task,
    raised,
    refusal,
    scheduled,
    start,
    started,
    task,
)
from tests.durable.stores import Address, ManualClock


async def test_errors_say_what_failed_and_whether_to_retry(provider: Provider) -> None:
    with pytest.raises(ProviderError) as failure:
        await provider.ack_work_item("nobody's")
    error = failure.value
    assert (error.operation, error.code, error.retryable) == ("ack_work_item", "lock_lost", False)
    assert str(error) == "ack_work_item: the lock is not held"


async def test_duplicate_events_are_refused_and_nothing_is_overwritten(provider: Provider) -> None:
    await begin(provider, "a")
    assert await refusal(provider.append_with_execution("a", 1, [scheduled("a", 2), started("a")])) == "duplicate_event"
    assert await provider.read("a") == [started("a")]
    await provider.append_with_execution("a", 1, [scheduled("a", 2)])
    assert [event.event_id for event in await provider.read("a")] == [1, 2]


async def test_missing_instances(provider: Provider) -> None:
    assert await provider.read("nobody") == []
    assert await provider.read_with_execution("nobody", 3) == []
    assert await provider.latest_execution_id("nobody") is None
    assert await provider.get_instance_info("nobody") is None
    assert await provider.get_execution_info("nobody", 1) is None
    assert await provider.get_instance_stats("nobody") is None
    assert await provider.list_executions("nobody") == []
    assert await provider.list_children("nobody") == []
    assert await refusal(provider.get_parent_id("nobody")) == "not_found"
    assert await refusal(provider.delete_instance("nobody", force=True)) == "not_found"
    assert await refusal(provider.prune_executions("nobody", PruneOptions())) == "not_found"


async def test_a_message_that_cannot_be_decoded_is_kept_counted_and_set_aside(
    provider: Provider, address: Address
) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a", "broken"))
    await provider.enqueue_for_orchestrator(raised("a", "fine"))
    await address.execute("update {}mailbox_messages set body = ? where id = (select min(id) from {}mailbox_messages)",
                          b"{not json")  # fmt: skip
    first = await fetch(provider)
    assert first.messages == [raised("a", "fine")]
    [broken] = first.undecodable
    assert "{not json" in broken.body
    await provider.abandon_orchestration_item(first.token)
    second = await fetch(provider)
    assert second.attempt == 2
    await provider.ack_orchestration_item(second.token, TurnCommit(execution_id=1, dead_letters=second.undecodable))
    rows = await address.execute("select routing_key, attempts, error from {}mailbox_dead_letters")
    assert [(row[0], row[1]) for row in rows] == [("a", 2)]
    assert (await provider.get_queue_depths()).orchestrator == 0


async def test_a_start_that_cannot_be_decoded_is_still_handed_out(provider: Provider, address: Address) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await address.execute("update {}mailbox_messages set body = ?", b"???")
    item = await fetch(provider)
    assert (item.instance, item.name, item.messages, len(item.undecodable)) == ("a", None, [], 1)


async def test_a_work_item_that_cannot_be_decoded_still_says_whose_it_is(provider: Provider, address: Address) -> None:
    await provider.enqueue_for_worker(task("a", 7))
    await address.execute("update {}work_items set body = ?", "{broken")
    found = await fetch_task(provider)
    assert found.decode_error is not None
    assert (found.task.instance, found.task.execution_id, found.task.activity_id) == ("a", 1, 7)


async def test_a_lock_that_expires_during_the_ack_refuses_it(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider, lock_ms=1_000)
    clock.advance(1_001)
    commit = TurnCommit(execution_id=1, history_delta=(scheduled("a", 2),))
    assert await refusal(provider.ack_orchestration_item(item.token, commit)) == "lock_lost"
    assert len(await provider.read("a")) == 1


async def test_a_closed_provider_says_so(address: Address) -> None:
    provider = await address.open()
    await provider.close()
    await provider.close()
    assert await refusal(provider.enqueue_for_orchestrator(start("a"))) == "closed"


@pytest.mark.parametrize("version", ["1", "1.2", "one", "1.2.x", "1048576.0.0", ""])
def test_versions_must_be_semver(version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        CapabilityFilter((VersionRange(version, "2.0.0"),)).packed()


@pytest.mark.parametrize("tags", [(), ("a", "b", "c", "d", "e", "f")])
def test_tag_filters_have_one_to_five_tags(tags: tuple[str, ...]) -> None:
    for make in (TagFilter.only, TagFilter.default_and):
        with pytest.raises(ValueError, match="1 to 5 tags"):
            make(*tags)


async def test_a_bad_pinned_version_is_refused_before_anything_is_stored(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider, lock_ms=LOCK_MS)
    metadata = ExecutionMetadata(name="Flow", version="1.0.0", pinned_version="new")
    commit = TurnCommit(execution_id=1, history_delta=(started("a"),), metadata=metadata)
    assert await refusal(provider.ack_orchestration_item(item.token, commit)) == "invalid"
    assert await provider.read("a") == []
    assert await provider.get_instance_info("a") is None
