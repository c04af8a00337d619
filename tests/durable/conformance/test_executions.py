from __future__ import annotations

from queen.durable.messages import ContinueAsNewMessage
from queen.durable.model import ExecutionMetadata
from queen.durable.provider import Provider
from tests.durable.conformance.story import begin, continue_as_new, fetch, finish, scheduled, started, turn
from tests.durable.stores import ManualClock


async def test_histories_of_executions_are_apart(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)])
    await continue_as_new(provider, "a", 2)
    assert [event.event_id for event in await provider.read_with_execution("a", 1)] == [1, 2]
    assert await provider.read_with_execution("a", 2) == [started("a", 2)]
    assert await provider.read("a") == [started("a", 2)]
    assert await provider.latest_execution_id("a") == 2


async def test_every_execution_is_kept_with_its_outcome(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a")
    for number in (2, 3):
        clock.advance(10)
        await continue_as_new(provider, "a", number)
    await finish(provider, "a", execution_id=3)
    executions = await provider.list_executions("a")
    assert [(one.execution_id, one.status, one.output) for one in executions] == [
        (1, "ContinuedAsNew", "2"), (2, "ContinuedAsNew", "2"), (3, "Completed", '"done"')
    ]  # fmt: skip
    assert [one.event_count for one in executions] == [1, 1, 1]
    assert executions[0].completed_at_ms == executions[1].started_at_ms
    assert await provider.get_execution_info("a", 2) == executions[1]
    assert await provider.get_execution_info("a", 4) is None


async def test_a_continued_instance_begins_with_an_empty_history(provider: Provider) -> None:
    await begin(provider, "a")
    again = ContinueAsNewMessage(instance="a", name="Flow", input="2", execution_id=2, version="2.0.0")
    metadata = ExecutionMetadata(status="ContinuedAsNew", output="2")
    await turn(provider, "a", metadata=metadata, orchestrator_items=(again,))
    item = await fetch(provider)
    assert (item.execution_id, item.version, item.history, item.is_new) == (2, "2.0.0", [], False)
    assert item.messages == [again]


async def test_a_failed_instance_keeps_its_error(provider: Provider) -> None:
    await begin(provider, "a")
    await finish(provider, "a", "Failed")
    info = await provider.get_instance_info("a")
    assert info is not None
    assert (info.status, info.output) == ("Failed", '"done"')


async def test_a_message_to_an_ended_instance_can_be_acked_away(provider: Provider) -> None:
    await begin(provider, "a")
    await finish(provider, "a")
    item = await turn(provider, "a")
    assert [type(event).__name__ for event in item.history] == ["OrchestrationStarted"]
    info = await provider.get_instance_info("a")
    assert info is not None
    assert info.status == "Completed"
