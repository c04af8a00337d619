from __future__ import annotations

from queen.durable.model import TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import begin, fetch, raised, start, started, told, turn


async def test_an_instance_comes_into_being_with_its_first_ack(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    assert await provider.get_instance_info("a") is None
    item = await fetch(provider)
    assert (item.name, item.version, item.execution_id, item.history, item.is_new) == ("Flow", None, 1, [], True)
    assert await provider.get_instance_info("a") is None
    commit = TurnCommit(execution_id=1, history_delta=(started("a"),), metadata=told(trace_id="t"))
    await provider.ack_orchestration_item(item.token, commit)
    info = await provider.get_instance_info("a")
    assert info is not None
    assert (info.name, info.version, info.status, info.current_execution_id) == ("Flow", "1.0.0", "Running", 1)
    assert (info.parent_instance, info.trace_id) == (None, "t")


async def test_the_start_names_the_version_when_it_has_one(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a", version="2.1.0"))
    assert (await fetch(provider)).version == "2.1.0"


async def test_a_later_fetch_knows_the_stored_name_and_version(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    assert (item.name, item.version, item.is_new) == ("Flow", "1.0.0", False)
    assert item.history == [started("a")]


async def test_a_child_is_created_alike_and_keeps_its_parent(provider: Provider) -> None:
    await begin(provider, "root", orchestrator_items=[start("child", parent_instance="root", parent_event_id=2)])
    item = await fetch(provider)
    assert (item.instance, item.parent_instance) == ("child", "root")
    commit = TurnCommit(execution_id=1, history_delta=(started("child"),), metadata=told(parent_instance="root"))
    await provider.ack_orchestration_item(item.token, commit)
    assert await provider.get_parent_id("child") == "root"
    await turn(provider, "child", metadata=told(parent_instance="another"))
    assert await provider.get_parent_id("child") == "root"


async def test_times_are_recorded(provider: Provider) -> None:
    before = provider.now_ms()
    await begin(provider, "a")
    info = await provider.get_instance_info("a")
    assert info is not None
    assert info.created_at_ms == info.updated_at_ms == before
    [execution] = await provider.list_executions("a")
    assert execution.started_at_ms == before
    assert execution.completed_at_ms is None
