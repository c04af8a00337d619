"""What the synchronous client answers: plain records with the names users of duroxide-python know."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from queen.durable import events, model
from queen.durable.codec import load
from queen.durable.events import (
    ApplicationFailure,
    ConfigurationFailure,
    Failure,
    HistoryEvent,
    InfrastructureFailure,
    PoisonFailure,
)

MAX_WORKER_TAGS = model.MAX_FILTER_TAGS


@dataclass(slots=True)
class OrchestrationResult:
    """Where an instance stands."""

    status: str
    output: Any = None
    error: str | None = None
    custom_status: str | None = None
    custom_status_version: int = 0


@dataclass(slots=True, frozen=True)
class Event:
    """One event of a history; `data` is JSON text or None."""

    event_id: int
    kind: str
    source_event_id: int | None
    timestamp_ms: int
    data: str | None


@dataclass(slots=True, frozen=True)
class InstanceInfo:
    """One instance."""

    instance_id: str
    orchestration_name: str
    orchestration_version: str
    current_execution_id: int
    status: str
    output: Any
    created_at: int
    updated_at: int
    parent_instance_id: str | None


@dataclass(slots=True, frozen=True)
class ExecutionInfo:
    """One execution of an instance."""

    execution_id: int
    status: str
    output: Any
    started_at: int
    completed_at: int | None
    event_count: int


@dataclass(slots=True, frozen=True)
class InstanceTree:
    """A root and all its descendants."""

    root_id: str
    all_ids: list[str]
    size: int


@dataclass(slots=True, frozen=True)
class SystemMetrics:
    """Totals over a store."""

    total_instances: int
    total_executions: int
    running_instances: int
    completed_instances: int
    failed_instances: int
    total_events: int


@dataclass(slots=True, frozen=True)
class SystemStats:
    """Sizes of one instance."""

    history_event_count: int
    history_size_bytes: int
    queue_pending_count: int
    kv_user_key_count: int
    kv_total_value_bytes: int


@dataclass(slots=True, frozen=True)
class QueueDepths:
    """Messages nobody has locked."""

    orchestrator_queue: int
    worker_queue: int
    timer_queue: int


@dataclass(slots=True, frozen=True)
class DeleteInstanceResult:
    """What a deletion removed."""

    instances_deleted: int
    executions_deleted: int
    events_deleted: int
    queue_messages_deleted: int


@dataclass(slots=True, frozen=True)
class PruneResult:
    """What pruning removed."""

    instances_processed: int
    executions_deleted: int
    events_deleted: int


@dataclass(slots=True)
class InstanceFilter:
    """Which instances a bulk call touches."""

    instance_ids: list[str] | None = None
    completed_before: int | None = None
    limit: int | None = None


@dataclass(slots=True)
class PruneOptions:
    """Which executions to keep."""

    keep_last: int | None = None
    completed_before: int | None = None


@dataclass(slots=True, frozen=True)
class TagFilter:
    """Which activities a runtime takes, by tag."""

    DEFAULT_ONLY = "default_only"
    ANY = "any"
    NONE = "none"

    text: str = field(default="default_only")

    @staticmethod
    def tags(tags: list[str]) -> str:
        """Only activities with one of these tags."""
        return json.dumps({"tags": list(tags)})

    @staticmethod
    def default_and(tags: list[str]) -> str:
        """Untagged activities, and those with one of these tags."""
        return json.dumps({"default_and": list(tags)})


def read_tag_filter(text: str | None) -> model.TagFilter:
    """The filter a text of `TagFilter` stands for."""
    words = {
        None: model.TagFilter.default_only,
        TagFilter.DEFAULT_ONLY: model.TagFilter.default_only,
        TagFilter.ANY: model.TagFilter.any,
        TagFilter.NONE: model.TagFilter.none,
    }
    if text in words:
        return words[text]()
    wanted = load(text)
    if isinstance(wanted, dict) and list(wanted) == ["tags"]:
        return model.TagFilter.only(*wanted["tags"])
    if isinstance(wanted, dict) and list(wanted) == ["default_and"]:
        return model.TagFilter.default_and(*wanted["default_and"])
    raise ValueError(f"worker_tag_filter must come from TagFilter, got {text!r}")


def show_event(event: HistoryEvent) -> Event:
    """An event as the client shows it."""
    return Event(
        event_id=event.event_id,
        kind=events.event_kind(event),
        source_event_id=event.source_event_id,
        timestamp_ms=event.timestamp_ms,
        data=_data(event),
    )


def _data(event: HistoryEvent) -> str | None:  # noqa: C901 one case per kind of event
    match event:
        case events.OrchestrationStarted():
            return _text(name=event.name, version=event.orchestration_version, input=load(event.input))
        case events.ActivityScheduled():
            return _text(name=event.name, input=load(event.input))
        case events.SubOrchestrationScheduled():
            return _text(name=event.name, instance=event.child_instance, input=load(event.input))
        case events.OrchestrationChained():
            return _text(name=event.name, instance=event.chained_instance, input=load(event.input))
        case events.TimerCreated() | events.TimerFired():
            return _text(fireAtMs=event.fire_at_ms)
        case events.ExternalSubscribed() | events.QueueSubscribed():
            return _text(name=event.name)
        case events.ExternalEvent() | events.QueueEventDelivered():
            return _text(name=event.name, data=load(event.data))
        case events.ActivityCompleted() | events.SubOrchestrationCompleted():
            return event.result
        case events.OrchestrationCompleted():
            return event.output
        case events.OrchestrationContinuedAsNew():
            return event.input
        case events.ActivityFailed() | events.SubOrchestrationFailed() | events.OrchestrationFailed():
            return json.dumps(show_failure(event.details))
        case _:
            return None


def show_failure(details: Failure) -> dict[str, Any]:
    """The details of a failure as history shows them."""
    match details:
        case ApplicationFailure(cause="cancelled"):
            return {
                "Application": {"kind": {"Cancelled": {"reason": details.message}}, "message": "", **_retry(details)}
            }
        case ApplicationFailure():
            kind = _APPLICATION_KINDS[details.cause]
            return {"Application": {"kind": kind, "message": details.message, **_retry(details)}}
        case ConfigurationFailure():
            return {"Configuration": {"kind": "Nondeterminism", "message": details.message}}
        case InfrastructureFailure():
            shown = {"operation": details.operation, "message": details.message, "retryable": details.retryable}
            return {"Infrastructure": shown}
        case PoisonFailure():
            shown = {"attempt_count": details.attempts, "max_attempts": details.max_attempts, "message": details.what}
            return {"Poison": shown}


_APPLICATION_KINDS = {
    "activity": "ActivityFailed",
    "orchestration": "OrchestrationFailed",
    "panicked": "Panicked",
    "cancelled": "Cancelled",
}


def _retry(details: ApplicationFailure) -> dict[str, bool]:
    return {"retryable": details.retryable}


def _text(**fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"))
