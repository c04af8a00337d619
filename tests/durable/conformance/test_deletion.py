from __future__ import annotations

import pytest

from queen.durable.events import SubOrchestrationScheduled
from queen.durable.model import InstanceFilter, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    begin,
    completed,
    continue_as_new,
    fetch,
    fetch_task,
    finish,
    no_task,
    nothing_to_fetch,
    raised,
    refusal,
    scheduled,
    start,
    started,
    task,
    timer,
    told,
)
from tests.durable.conformance.test_reads import child_of
from tests.durable.stores import Address, ManualClock

TABLES = (
    "instances", "executions", "history", "mailbox_keys", "mailbox_messages", "work_items", "kv_store", "kv_delta",
    "mailbox_dedup",
)  # fmt: skip


async def rows_left(address: Address) -> dict[str, int]:
    counts = {table: (await address.execute(f"select count(*) from {{}}{table}"))[0][0] for table in TABLES}
    return {table: count for table, count in counts.items() if count}


async def test_an_ended_instance_is_deleted_without_trace(
    provider: Provider, address: Address, clock: ManualClock
) -> None:
    await provider.enqueue_for_orchestrator(raised("a"), dedup_id="t1")
    await begin(
        provider,
        "a",
        [scheduled("a", 2)],
        worker_items=[task("a", 2)],
        orchestrator_items=[timer("a", clock() + 60_000)],
    )
    await finish(provider, "a")
    counts = await provider.delete_instance("a")
    assert (counts.instances, counts.executions, counts.events, counts.messages) == (1, 1, 2, 1), (
        "its timer went when it ended"
    )
    assert await rows_left(address) == {}
    assert await refusal(provider.delete_instance("a")) == "not_found"


async def test_a_running_one_only_by_force(provider: Provider) -> None:
    await begin(provider, "a")
    assert await refusal(provider.delete_instance("a")) == "refused"
    assert (await provider.delete_instance("a", force=True)).instances == 1


async def test_a_root_with_a_running_child_only_by_force(provider: Provider) -> None:
    await begin(provider, "root")
    await child_of(provider, "root", "kid")
    await finish(provider, "root")
    assert await refusal(provider.delete_instance("root")) == "refused"
    assert (await provider.delete_instance("root", force=True)).instances == 2


async def test_a_child_is_never_deleted_directly(provider: Provider) -> None:
    await begin(provider, "root")
    await child_of(provider, "root", "kid")
    for force in (False, True):
        assert await refusal(provider.delete_instance("kid", force=force)) == "refused"
    assert (await provider.get_instance_tree("root")).ids == ["root", "kid"]


async def test_a_root_takes_all_its_descendants(provider: Provider, address: Address) -> None:
    await begin(provider, "root")
    await child_of(provider, "root", "kid")
    await child_of(provider, "kid", "grandkid")
    await begin(provider, "stranger")
    counts = await provider.delete_instance("root", force=True)
    assert (counts.instances, counts.executions, counts.events) == (3, 3, 3)
    assert await rows_left(address) == {"instances": 1, "executions": 1, "history": 1, "mailbox_keys": 1}


async def test_a_child_that_is_not_born_yet_goes_too(provider: Provider, address: Address) -> None:
    scheduled_child = SubOrchestrationScheduled(
        event_id=2, instance="root", execution_id=1, timestamp_ms=1, name="Flow", child_instance="kid", input="1"
    )
    await begin(provider, "root", [scheduled_child], orchestrator_items=[start("kid", parent_instance="root")])
    counts = await provider.delete_instance("root", force=True)
    assert (counts.instances, counts.messages) == (1, 1)
    assert await rows_left(address) == {}
    assert await nothing_to_fetch(provider)


async def test_a_child_born_while_its_root_is_deleted_is_refused(provider: Provider, address: Address) -> None:
    scheduled_child = SubOrchestrationScheduled(
        event_id=2, instance="root", execution_id=1, timestamp_ms=1, name="Flow", child_instance="kid", input="1"
    )
    await begin(provider, "root", [scheduled_child], orchestrator_items=[start("kid", parent_instance="root")])
    birth = await fetch(provider)
    await provider.delete_instance("root", force=True)
    commit = TurnCommit(execution_id=1, history_delta=(started("kid"),), metadata=told(parent_instance="root"))
    assert await refusal(provider.ack_orchestration_item(birth.token, commit)) == "lock_lost"
    assert await rows_left(address) == {}


async def test_a_turn_under_way_cannot_bring_a_deleted_instance_back(provider: Provider, address: Address) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    await provider.delete_instance("a", force=True)
    commit = TurnCommit(
        execution_id=1,
        history_delta=(scheduled("a", 2),),
        metadata=told(status="Completed", output="1"),
        worker_items=(task("a", 2),),
    )
    assert await refusal(provider.ack_orchestration_item(item.token, commit)) == "lock_lost"
    assert await rows_left(address) == {}
    assert await no_task(provider)


async def test_what_comes_too_late_does_not_disturb_a_new_instance_of_that_name(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    running = await fetch_task(provider)
    await provider.enqueue_for_orchestrator(raised("a", "old"))
    await provider.delete_instance("a", force=True)
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    assert await refusal(provider.ack_work_item(running.token, completed("a", result='"old"'))) == "lock_lost"
    assert await nothing_to_fetch(provider)
    again = await fetch_task(provider)
    assert again.attempt == 1
    await provider.ack_work_item(again.token, completed("a", result='"new"'))
    assert (await fetch(provider)).messages == [completed("a", result='"new"')]


async def test_bulk_deletion_takes_ended_roots_only(provider: Provider) -> None:
    for instance in ("done", "failed", "running", "root"):
        await begin(provider, instance)
    await child_of(provider, "root", "kid")
    for instance, status in (("done", "Completed"), ("failed", "Failed"), ("root", "Completed"), ("kid", "Completed")):
        await finish(provider, instance, status)
    counts = await provider.delete_instances(InstanceFilter())
    assert (counts.instances, counts.executions) == (4, 4)
    assert [info.instance for info in (await provider.list_instances()).instances] == ["running"]


async def test_bulk_deletion_skips_roots_whose_children_run(provider: Provider) -> None:
    await begin(provider, "root")
    await child_of(provider, "root", "kid")
    await finish(provider, "root")
    assert (await provider.delete_instances(InstanceFilter())).instances == 0


async def test_bulk_deletion_by_ids_time_and_limit(provider: Provider, clock: ManualClock) -> None:
    for number in range(4):
        await begin(provider, f"i{number}")
        await finish(provider, f"i{number}")
        clock.advance(1_000)
    assert (await provider.delete_instances(InstanceFilter(instances=()))).instances == 0
    assert (await provider.delete_instances(InstanceFilter(instances=("nobody",)))).instances == 0
    old = InstanceFilter(instances=("i1", "i3"), completed_before_ms=clock() - 2_000)
    assert (await provider.delete_instances(old)).instances == 1
    assert (await provider.delete_instances(InstanceFilter(limit=1))).instances == 1
    assert [info.instance for info in (await provider.list_instances()).instances] == ["i3", "i2"]


async def test_an_instance_between_two_executions_counts_as_running(provider: Provider) -> None:
    await begin(provider, "a")
    await finish(provider, "a", "ContinuedAsNew")
    assert await refusal(provider.delete_instance("a")) == "refused"
    assert (await provider.delete_instances(InstanceFilter())).instances == 0


async def test_all_executions_go(provider: Provider, address: Address) -> None:
    await begin(provider, "a")
    await continue_as_new(provider, "a", 2)
    counts = await provider.delete_instance("a", force=True)
    assert (counts.executions, counts.events) == (2, 2)
    assert await rows_left(address) == {}


async def test_an_instance_whose_history_is_broken_can_be_deleted(provider: Provider, address: Address) -> None:
    child = SubOrchestrationScheduled(
        event_id=2, instance="a", execution_id=1, timestamp_ms=1, name="Flow", child_instance="kid", input="1"
    )
    await begin(provider, "a", [child])
    await address.execute("update {}history set data = ?", '{"child_instance":"\\u12')
    stats = await provider.get_instance_stats("a")
    assert stats is not None
    assert (stats.event_count, stats.carried_events) == (2, 0)
    assert (await provider.delete_instance("a", force=True)).events == 2
    assert await rows_left(address) == {}


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "ünï ✓", "line\nbreak", "a::sub::2"])
async def test_an_unborn_child_of_any_name_goes_with_its_root(provider: Provider, address: Address, name: str) -> None:
    child = SubOrchestrationScheduled(
        event_id=2, instance="root", execution_id=1, timestamp_ms=1, name="Flow", child_instance=name, input="1"
    )
    await begin(provider, "root", [child], orchestrator_items=[start(name, parent_instance="root")])
    await provider.delete_instance("root", force=True)
    assert await rows_left(address) == {}
