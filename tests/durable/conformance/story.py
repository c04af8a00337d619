"""Short words for telling a provider a story."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from queen.durable.events import (
    ActivityScheduled,
    CustomStatusUpdated,
    HistoryEvent,
    KeyValueCleared,
    KeyValuesCleared,
    KeyValueSet,
    OrchestrationStarted,
)
from queen.durable.messages import (
    ActivityCompletedMessage,
    ActivityTask,
    ContinueAsNewMessage,
    ExternalRaisedMessage,
    OrchestratorMessage,
    QueueMessage,
    StartMessage,
    TimerFiredMessage,
)
from queen.durable.model import ExecutionMetadata, LockedTask, OrchestrationItem, TurnCommit
from queen.durable.provider import Provider, ProviderError

LOCK_MS = 5_000


def start(instance: str, **more: Any) -> StartMessage:
    return StartMessage(instance=instance, name="Flow", input="1", **more)


def raised(instance: str, data: str = "x") -> ExternalRaisedMessage:
    return ExternalRaisedMessage(instance=instance, name="Go", data=data)


def queued(instance: str, data: str = "x") -> QueueMessage:
    return QueueMessage(instance=instance, name="inbox", data=data)


def timer(instance: str, fire_at_ms: int, timer_id: int = 2) -> TimerFiredMessage:
    return TimerFiredMessage(instance=instance, execution_id=1, timer_id=timer_id, fire_at_ms=fire_at_ms)


def completed(instance: str, activity_id: int = 2, result: str = "1") -> ActivityCompletedMessage:
    return ActivityCompletedMessage(instance=instance, execution_id=1, activity_id=activity_id, result=result)


def task(instance: str = "a", activity_id: int = 2, **more: Any) -> ActivityTask:
    return ActivityTask(
        instance=instance,
        execution_id=more.pop("execution_id", 1),
        activity_id=activity_id,
        name="act",
        input="1",
        **more,
    )


def started(instance: str, execution_id: int = 1) -> OrchestrationStarted:
    return OrchestrationStarted(
        event_id=1,
        instance=instance,
        execution_id=execution_id,
        timestamp_ms=1,
        name="Flow",
        orchestration_version="1.0.0",
        input="1",
    )


def scheduled(instance: str, event_id: int, execution_id: int = 1) -> ActivityScheduled:
    return ActivityScheduled(
        event_id=event_id, instance=instance, execution_id=execution_id, timestamp_ms=1, name="act", input="1"
    )


def status_set(instance: str, event_id: int, value: str | None) -> CustomStatusUpdated:
    return CustomStatusUpdated(event_id=event_id, instance=instance, execution_id=1, timestamp_ms=1, value=value)


def key_set(instance: str, event_id: int, key: str, value: str, execution_id: int = 1) -> KeyValueSet:
    return KeyValueSet(
        event_id=event_id,
        instance=instance,
        execution_id=execution_id,
        timestamp_ms=1,
        key=key,
        value=value,
        updated_at_ms=event_id * 100,
    )


def key_cleared(instance: str, event_id: int, key: str, execution_id: int = 1) -> KeyValueCleared:
    return KeyValueCleared(event_id=event_id, instance=instance, execution_id=execution_id, timestamp_ms=1, key=key)


def keys_cleared(instance: str, event_id: int, execution_id: int = 1) -> KeyValuesCleared:
    return KeyValuesCleared(event_id=event_id, instance=instance, execution_id=execution_id, timestamp_ms=1)


def told(**more: Any) -> ExecutionMetadata:
    return ExecutionMetadata(name="Flow", version="1.0.0", **more)


async def fetch(provider: Provider, **more: Any) -> OrchestrationItem:
    [item] = await provider.fetch_orchestration_items(lock_timeout_ms=more.pop("lock_ms", LOCK_MS), **more)
    return item


async def nothing_to_fetch(provider: Provider, **more: Any) -> bool:
    return await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, **more) == []


async def fetch_task(provider: Provider, **more: Any) -> LockedTask:
    [found] = await provider.fetch_work_items(lock_timeout_ms=more.pop("lock_ms", LOCK_MS), **more)
    return found


async def no_task(provider: Provider, **more: Any) -> bool:
    return await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, **more) == []


async def begin(
    provider: Provider,
    instance: str,
    events: Sequence[HistoryEvent] = (),
    *,
    metadata: ExecutionMetadata | None = None,
    worker_items: Sequence[ActivityTask] = (),
    orchestrator_items: Sequence[OrchestratorMessage] = (),
) -> None:
    """Start an instance and commit its first turn."""
    await provider.enqueue_for_orchestrator(start(instance))
    item = await fetch(provider)
    assert item.instance == instance
    await provider.ack_orchestration_item(
        item.token,
        TurnCommit(
            execution_id=1,
            history_delta=(started(instance), *events),
            metadata=metadata or told(),
            worker_items=tuple(worker_items),
            orchestrator_items=tuple(orchestrator_items),
        ),
    )


async def turn(
    provider: Provider,
    instance: str,
    events: Sequence[HistoryEvent] = (),
    *,
    message: OrchestratorMessage | None = None,
    execution_id: int = 1,
    metadata: ExecutionMetadata | None = None,
    **more: Any,
) -> OrchestrationItem:
    """Send a message, and commit the turn it leads to."""
    await provider.enqueue_for_orchestrator(message or raised(instance))
    item = await fetch(provider)
    assert item.instance == instance
    commit = TurnCommit(
        execution_id=execution_id, history_delta=tuple(events), metadata=metadata or ExecutionMetadata(), **more
    )
    await provider.ack_orchestration_item(item.token, commit)
    return item


async def finish(provider: Provider, instance: str, status: Any = "Completed", execution_id: int = 1) -> None:
    """End an instance."""
    ended = ExecutionMetadata(status=status, output='"done"')
    await turn(provider, instance, execution_id=execution_id, metadata=ended)


async def continue_as_new(provider: Provider, instance: str, execution_id: int) -> None:
    """End execution ``execution_id`` - 1 and commit the first turn of the next."""
    again = ContinueAsNewMessage(instance=instance, name="Flow", input="2", execution_id=execution_id, version="1.0.0")
    await turn(
        provider,
        instance,
        execution_id=execution_id - 1,
        metadata=ExecutionMetadata(status="ContinuedAsNew", output="2"),
        orchestrator_items=(again,),
    )
    item = await fetch(provider)
    assert item.execution_id == execution_id
    await provider.ack_orchestration_item(
        item.token,
        TurnCommit(execution_id=execution_id, history_delta=(started(instance, execution_id),), metadata=told()),
    )


async def refusal(call: Awaitable[Any]) -> str:
    """The code a call is refused with; it must not be worth a retry."""
    with pytest.raises(ProviderError) as failure:
        await call
    assert not failure.value.retryable
    return failure.value.code
