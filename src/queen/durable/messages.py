"""Work items: what is sent to an instance (orchestrator queue) and to activity workers (worker queue)."""

from typing import Literal

import msgspec

from queen.durable.events import CarriedEvent, Failure, HistoryEvent
from queen.durable.limits import Place

__all__ = [
    "ActivityCompletedMessage",
    "ActivityFailedMessage",
    "ActivityTask",
    "CancelMessage",
    "ContinueAsNewMessage",
    "ExternalRaisedMessage",
    "Message",
    "OrchestratorMessage",
    "QueueMessage",
    "ResetMessage",
    "Restored",
    "ResumeMessage",
    "Reuse",
    "StartMessage",
    "SubOrchestrationCompletedMessage",
    "SubOrchestrationFailedMessage",
    "TimerFiredMessage",
    "decode_message",
    "decode_task",
    "encode_item",
    "handler_name",
    "handler_of",
    "timer_name",
    "visible_from_ms",
    "withdrawal_name",
]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind", omit_defaults=True):
    """Anything routed to an instance. ``instance`` is the routing key."""

    instance: str


Reuse = Literal["never", "failed", "ended"]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The history a new execution begins with, and the keys it had at its start (key, value, time)."""

    history: tuple[HistoryEvent, ...]
    earlier_seeds: tuple[tuple[int, str], ...]
    keys: tuple[tuple[str, str, int], ...]


class StartMessage(Message, frozen=True, kw_only=True):
    """Start an orchestration; ignored by an instance that exists, unless ``reuse`` allows a new execution of it."""

    name: str
    input: str
    version: str | None = None
    execution_id: int = 1
    parent_instance: str | None = None
    parent_execution_id: int | None = None
    parent_event_id: int | None = None
    trace_id: str | None = None
    reuse: Reuse = "never"
    attributes: dict[str, str] = {}
    restored: Restored | None = None


class ContinueAsNewMessage(Message, frozen=True, kw_only=True):
    """Begin execution ``execution_id`` of the same instance with a fresh history."""

    name: str
    input: str
    execution_id: int
    version: str | None = None
    parent_instance: str | None = None
    parent_execution_id: int | None = None
    parent_event_id: int | None = None
    carried_events: tuple[CarriedEvent, ...] = ()
    custom_status: str | None = None
    trace_id: str | None = None
    restored: Restored | None = None


class ActivityCompletedMessage(Message, frozen=True, kw_only=True):
    """``activity_id`` is the event id of the schedule."""

    execution_id: int
    activity_id: int
    result: str


class ActivityFailedMessage(Message, frozen=True, kw_only=True):
    """The activity failed, for good."""

    execution_id: int
    activity_id: int
    details: Failure


class TimerFiredMessage(Message, frozen=True, kw_only=True):
    """Becomes visible at ``fire_at_ms``: a timer is a message with a future visible time."""

    execution_id: int
    timer_id: int
    fire_at_ms: int


class ExternalRaisedMessage(Message, frozen=True, kw_only=True):
    """An external event for whoever waits for ``name``."""

    name: str
    data: str


class QueueMessage(Message, frozen=True, kw_only=True):
    """An event for the instance's FIFO mailbox ``name``."""

    name: str
    data: str


class SubOrchestrationCompletedMessage(Message, frozen=True, kw_only=True):
    """Sent to the parent: ``instance`` is the parent, ``execution_id`` the parent's execution."""

    execution_id: int
    parent_event_id: int
    result: str


class SubOrchestrationFailedMessage(Message, frozen=True, kw_only=True):
    """Sent to the parent: the child failed."""

    execution_id: int
    parent_event_id: int
    details: Failure


class CancelMessage(Message, frozen=True, kw_only=True):
    """Ask the instance to stop; ``force`` ends it without asking its code."""

    reason: str
    force: bool = False


class ResumeMessage(Message, frozen=True, kw_only=True):
    """Try a parked instance again, from ``not_before_ms`` on."""

    attempt: int = 1
    not_before_ms: int = 0


class ResetMessage(Message, frozen=True, kw_only=True):
    """Begin a new execution from the history up to ``from_step``; without it, from the last failure."""

    from_step: int | None = None
    version: str | None = None


OrchestratorMessage = (
    StartMessage
    | ContinueAsNewMessage
    | ActivityCompletedMessage
    | ActivityFailedMessage
    | TimerFiredMessage
    | ExternalRaisedMessage
    | QueueMessage
    | SubOrchestrationCompletedMessage
    | SubOrchestrationFailedMessage
    | CancelMessage
    | ResumeMessage
    | ResetMessage
)


class ActivityTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of an activity. Higher ``priority`` first, then oldest first."""

    instance: str
    execution_id: int
    activity_id: int
    name: str
    input: str
    session_id: str | None = None
    tag: str | None = None
    priority: int = 0
    orchestration_name: str = ""
    orchestration_version: str = ""
    trace_id: str | None = None
    progress: str | None = None
    first_id: int | None = None
    seed: str | None = None
    place: Place | None = None


_encoder = msgspec.json.Encoder()
_message_decoder: msgspec.json.Decoder[OrchestratorMessage] = msgspec.json.Decoder(OrchestratorMessage)
_task_decoder = msgspec.json.Decoder(ActivityTask)


def encode_item(item: Message | ActivityTask) -> str:
    """A work item as JSON text."""
    return _encoder.encode(item).decode()


def decode_message(text: str | bytes) -> OrchestratorMessage:
    """Raises ``msgspec.DecodeError`` on anything that is not an orchestrator message."""
    return _message_decoder.decode(text)


def decode_task(text: str | bytes) -> ActivityTask:
    """Raises ``msgspec.DecodeError`` on anything that is not an activity task."""
    return _task_decoder.decode(text)


def visible_from_ms(message: OrchestratorMessage) -> int:
    """When a message is visible at the earliest: timers and resumptions from their time, others at once (0)."""
    if isinstance(message, ResumeMessage):
        return message.not_before_ms
    return message.fire_at_ms if isinstance(message, TimerFiredMessage) else 0


def timer_name(execution_id: int, timer_id: int) -> str:
    """By which the message of a timer can be withdrawn."""
    return f"timer:{execution_id}:{timer_id}"


def withdrawal_name(message: OrchestratorMessage) -> str | None:
    """By which its sender can withdraw a message; timers only."""
    return timer_name(message.execution_id, message.timer_id) if isinstance(message, TimerFiredMessage) else None


def handler_of(message: OrchestratorMessage) -> str | None:
    """What code an instance needs that begins with this message; ``None`` when it begins nothing."""
    if not isinstance(message, (StartMessage, ContinueAsNewMessage)):
        return None
    return handler_name(message.name, message.version)


def handler_name(name: str, version: str | None) -> str:
    """How the need for one version of an orchestration, or for any, is written in the store."""
    return name if version is None else f"{name}@{version}"
