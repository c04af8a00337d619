"""The history of an instance: one frozen struct per kind of event.

An event's kind is its class name, stored under ``"kind"``. Event ids are 1, 2, 3 ... within an execution;
a completion names the event that scheduled it in ``source_event_id``. The runtime makes events, a provider
only stores them.
"""

from collections.abc import Sequence

import msgspec

from queen.durable.failures import (
    ApplicationFailure,
    ConfigurationFailure,
    Failure,
    InfrastructureFailure,
    PoisonFailure,
)
from queen.durable.limits import Place

__all__ = [
    "ActivityCancelRequested",
    "ActivityCompleted",
    "ActivityFailed",
    "ActivityScheduled",
    "ApplicationFailure",
    "CarriedEvent",
    "ConfigurationFailure",
    "CustomStatusUpdated",
    "Event",
    "ExternalEvent",
    "ExternalSubscribed",
    "ExternalSubscribedCancelled",
    "Failure",
    "HistoryEvent",
    "InfrastructureFailure",
    "KeyValueCleared",
    "KeyValueSet",
    "KeyValuesCleared",
    "MessagePushed",
    "MessageSent",
    "OrchestrationCancelRequested",
    "OrchestrationChained",
    "OrchestrationCompleted",
    "OrchestrationContinuedAsNew",
    "OrchestrationFailed",
    "OrchestrationParked",
    "OrchestrationStarted",
    "PatchMarked",
    "PoisonFailure",
    "QueueEventDelivered",
    "QueueSubscribed",
    "QueueSubscriptionCancelled",
    "SubOrchestrationCancelRequested",
    "SubOrchestrationCompleted",
    "SubOrchestrationFailed",
    "SubOrchestrationScheduled",
    "TimerCreated",
    "TimerFired",
    "decode_event",
    "decode_events",
    "encode_event",
    "event_kind",
]


class CarriedEvent(msgspec.Struct, frozen=True, array_like=True):
    """A queue event not yet consumed, carried over continue-as-new."""

    name: str
    data: str


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind", omit_defaults=True):
    """The envelope every kind shares. ``version`` is the runtime version that wrote the event."""

    event_id: int
    instance: str
    execution_id: int
    timestamp_ms: int
    version: str = ""
    source_event_id: int | None = None


class OrchestrationStarted(Event, frozen=True, kw_only=True):
    """First event of every execution, always id 1.

    ``seed`` is what its ids are made from, new with every execution; an execution that was made from an
    earlier one keeps that one's seeds for the events up to where it leaves it. ``initial_keys`` replace the
    keys the instance had, as key, value and time. By its ``attributes`` (JSON text) it can be found. A ``limited`` one
    waits for its place first.
    """

    name: str
    orchestration_version: str
    input: str
    parent_instance: str | None = None
    parent_execution_id: int | None = None
    parent_event_id: int | None = None
    carried_events: tuple[CarriedEvent, ...] = ()
    initial_custom_status: str | None = None
    trace_id: str | None = None
    seed: str | None = None
    earlier_seeds: tuple[tuple[int, str], ...] = ()
    initial_keys: tuple[tuple[str, str, int], ...] | None = None
    attributes: dict[str, str] = {}
    limited: bool = False

    def seed_at(self, event_id: int) -> str:
        """What ids made at this event are made from."""
        for last, seed in self.earlier_seeds:
            if event_id <= last:
                return seed
        return self.seed or str(self.execution_id)


class OrchestrationCompleted(Event, frozen=True, kw_only=True):
    """Terminal: the code returned ``output`` (JSON text)."""

    output: str


class OrchestrationFailed(Event, frozen=True, kw_only=True):
    """Terminal: the code raised, was cancelled, or could not be run."""

    details: Failure


class OrchestrationContinuedAsNew(Event, frozen=True, kw_only=True):
    """Terminal for this execution; the next one starts with ``input``, or over again from ``reset_to``."""

    input: str
    reset_to: int | None = None


class OrchestrationParked(Event, frozen=True, kw_only=True):
    """The code at hand does not fit the history: the instance waits for code that does.

    ``at_event`` is where, ``recorded`` what history has there, ``found`` what the code did, and ``traceback``
    that of the exception it raised there, if it did.
    """

    reason: str
    at_event: int | None = None
    recorded: str | None = None
    found: str | None = None
    traceback: str = ""


class PatchMarked(Event, frozen=True, kw_only=True):
    """From here on the code takes the branch it calls ``name``."""

    name: str


class OrchestrationCancelRequested(Event, frozen=True, kw_only=True):
    """Somebody asked the instance to stop."""

    reason: str


class OrchestrationChained(Event, frozen=True, kw_only=True):
    """A detached start: the child reports to nobody."""

    name: str
    chained_instance: str
    input: str
    orchestration_version: str | None = None


class ActivityScheduled(Event, frozen=True, kw_only=True):
    """The code called an activity; its event id is the activity id. ``first_id`` is that of its first attempt."""

    name: str
    input: str
    session_id: str | None = None
    tag: str | None = None
    priority: int = 0
    progress: str | None = None
    first_id: int | None = None
    place: Place | None = None


class ActivityCompleted(Event, frozen=True, kw_only=True):
    """An activity returned."""

    result: str


class ActivityFailed(Event, frozen=True, kw_only=True):
    """An activity raised, or was never finished."""

    details: Failure


class ActivityCancelRequested(Event, frozen=True, kw_only=True):
    """``reason``: ``dropped_future`` or ``orchestration_terminal_{completed,failed,continued_as_new}``."""

    reason: str


class TimerCreated(Event, frozen=True, kw_only=True):
    """The code started to wait until ``fire_at_ms``."""

    fire_at_ms: int


class TimerFired(Event, frozen=True, kw_only=True):
    """A timer came due."""

    fire_at_ms: int


class ExternalSubscribed(Event, frozen=True, kw_only=True):
    """The code waits for an external event, by position."""

    name: str


class ExternalEvent(Event, frozen=True, kw_only=True):
    """An external event arrived; `kept` from after the step that a reset or fork goes on from."""

    name: str
    data: str
    kept: bool = False


class ExternalSubscribedCancelled(Event, frozen=True, kw_only=True):
    """A wait for an external event was given up."""

    reason: str


class QueueSubscribed(Event, frozen=True, kw_only=True):
    """The code waits for the next event of a FIFO mailbox."""

    name: str


class QueueEventDelivered(Event, frozen=True, kw_only=True):
    """An event arrived in a FIFO mailbox."""

    name: str
    data: str


class QueueSubscriptionCancelled(Event, frozen=True, kw_only=True):
    """A wait on a FIFO mailbox was given up."""

    reason: str


class SubOrchestrationScheduled(Event, frozen=True, kw_only=True):
    """The code started a child that reports back."""

    name: str
    child_instance: str
    input: str
    orchestration_version: str | None = None


class SubOrchestrationCompleted(Event, frozen=True, kw_only=True):
    """A child completed."""

    result: str


class SubOrchestrationFailed(Event, frozen=True, kw_only=True):
    """A child failed."""

    details: Failure


class SubOrchestrationCancelRequested(Event, frozen=True, kw_only=True):
    """A child was asked to stop."""

    reason: str


class CustomStatusUpdated(Event, frozen=True, kw_only=True):
    """``None`` clears the status."""

    value: str | None


class KeyValueSet(Event, frozen=True, kw_only=True):
    """A key got a value."""

    key: str
    value: str
    updated_at_ms: int


class KeyValueCleared(Event, frozen=True, kw_only=True):
    """A key was cleared."""

    key: str


class KeyValuesCleared(Event, frozen=True, kw_only=True):
    """Every key of the instance is cleared."""


class MessagePushed(Event, frozen=True, kw_only=True):
    """A message for a Queen queue, stored in the same transaction as the event."""

    queue: str
    partition: str
    payload: str
    transaction_id: str


class MessageSent(Event, frozen=True, kw_only=True):
    """A message for a queue of another instance, sent when the turn is committed."""

    target: str
    queue: str
    data: str


HistoryEvent = (
    OrchestrationStarted
    | OrchestrationCompleted
    | OrchestrationFailed
    | OrchestrationContinuedAsNew
    | OrchestrationCancelRequested
    | OrchestrationChained
    | OrchestrationParked
    | PatchMarked
    | MessageSent
    | ActivityScheduled
    | ActivityCompleted
    | ActivityFailed
    | ActivityCancelRequested
    | TimerCreated
    | TimerFired
    | ExternalSubscribed
    | ExternalEvent
    | ExternalSubscribedCancelled
    | QueueSubscribed
    | QueueEventDelivered
    | QueueSubscriptionCancelled
    | SubOrchestrationScheduled
    | SubOrchestrationCompleted
    | SubOrchestrationFailed
    | SubOrchestrationCancelRequested
    | CustomStatusUpdated
    | KeyValueSet
    | KeyValueCleared
    | KeyValuesCleared
    | MessagePushed
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[HistoryEvent] = msgspec.json.Decoder(HistoryEvent)


def event_kind(event: Event) -> str:
    """Name of the event's kind, as stored and as shown to users."""
    return type(event).__name__


def encode_event(event: Event) -> str:
    """The event as JSON text, the form in which providers store it."""
    return _encoder.encode(event).decode()


def decode_event(text: str | bytes) -> HistoryEvent:
    """Inverse of :func:`encode_event`; raises ``msgspec.DecodeError`` on anything else."""
    return _decoder.decode(text)


def decode_events(texts: Sequence[str | bytes]) -> list[HistoryEvent]:
    """Decode a whole history in order; raises ``msgspec.DecodeError`` at the first broken event."""
    return [_decoder.decode(text) for text in texts]
