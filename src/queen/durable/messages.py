"""Work items: what is sent to an instance (orchestrator queue) and to activity workers (worker queue)."""

import msgspec

from queen.durable.events import CarriedEvent, Failure

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
    "StartMessage",
    "SubOrchestrationCompletedMessage",
    "SubOrchestrationFailedMessage",
    "TimerFiredMessage",
    "decode_message",
    "decode_task",
    "encode_item",
    "visible_from_ms",
]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind", omit_defaults=True):
    """Anything routed to an instance. ``instance`` is the routing key."""

    instance: str


class StartMessage(Message, frozen=True, kw_only=True):
    """Start an orchestration; ignored by an instance that already exists."""

    name: str
    input: str
    version: str | None = None
    execution_id: int = 1
    parent_instance: str | None = None
    parent_execution_id: int | None = None
    parent_event_id: int | None = None
    trace_id: str | None = None


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
    """Ask the instance to stop."""

    reason: str


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
    """When a message is visible at the earliest: a timer from its fire time, others at once (0)."""
    return message.fire_at_ms if isinstance(message, TimerFiredMessage) else 0
