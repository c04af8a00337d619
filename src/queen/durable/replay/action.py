"""What orchestration code asked for, and the one history event that records each request.

In replay every recorded request must equal the next one the code makes; `matches` says what "equal" means
for each kind, `describe` how the request reads in an error message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from queen.durable import events
from queen.durable.events import Event, HistoryEvent
from queen.durable.limits import Place
from queen.durable.replay.promise import Promise


class Envelope(TypedDict):
    """The fields every new event shares."""

    event_id: int
    instance: str
    execution_id: int
    timestamp_ms: int
    version: str


@dataclass(slots=True, eq=False, kw_only=True)
class Action:
    """A request of the code; `event_id` is known once it is bound to a recorded or new event."""

    promise: Promise[Any] | None = None
    event_id: int | None = None

    def matches(self, event: Event) -> bool:
        """Whether `event` is the record of this request."""
        raise NotImplementedError

    def describe(self) -> str:
        """The request as a person would say it."""
        raise NotImplementedError

    def record(self, envelope: Envelope) -> HistoryEvent:
        """The event that records this request from now on."""
        raise NotImplementedError


@dataclass(slots=True, eq=False, kw_only=True)
class RunActivity(Action):
    """Run an activity on a worker."""

    name: str
    input: str
    session_id: str | None = None
    tag: str | None = None
    priority: int = 0
    progress: str | None = None
    first_id: int | None = None
    place: Place | None = None

    def matches(self, event: Event) -> bool:
        return (
            isinstance(event, events.ActivityScheduled)
            and event.name == self.name
            and event.input == self.input
            and event.session_id == self.session_id
            and event.tag == self.tag
        )

    def describe(self) -> str:
        return _call("ActivityScheduled", name=self.name, input=self.input, session=self.session_id, tag=self.tag)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.ActivityScheduled(
            **envelope,
            name=self.name,
            input=self.input,
            session_id=self.session_id,
            tag=self.tag,
            priority=self.priority,
            progress=self.progress,
            first_id=self.first_id,
            place=self.place,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class StartTimer(Action):
    """Fires at `until_ms`, or `delay_ms` after the turn that records it; `fire_at_ms` is known then."""

    delay_ms: int = 0
    until_ms: int | None = None
    fire_at_ms: int | None = None

    def matches(self, event: Event) -> bool:
        if not isinstance(event, events.TimerCreated):
            return False
        self.fire_at_ms = event.fire_at_ms
        return True

    def describe(self) -> str:
        return "TimerCreated"

    def record(self, envelope: Envelope) -> HistoryEvent:
        self.fire_at_ms = self.until_ms if self.until_ms is not None else envelope["timestamp_ms"] + self.delay_ms
        return events.TimerCreated(**envelope, fire_at_ms=self.fire_at_ms)


@dataclass(slots=True, eq=False, kw_only=True)
class AwaitEvent(Action):
    """Waits for an external event; `buffered` also takes one that came before the wait."""

    name: str
    buffered: bool = False
    received: str | None = None

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.ExternalSubscribed) and event.name == self.name

    def describe(self) -> str:
        return _call("ExternalSubscribed", name=self.name)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.ExternalSubscribed(**envelope, name=self.name)


@dataclass(slots=True, eq=False, kw_only=True)
class Dequeue(Action):
    """Take the next message of one of the instance's queues."""

    name: str
    received: str | None = None

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.QueueSubscribed) and event.name == self.name

    def describe(self) -> str:
        return _call("QueueSubscribed", name=self.name)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.QueueSubscribed(**envelope, name=self.name)


@dataclass(slots=True, eq=False, kw_only=True)
class RunChild(Action):
    """Without `instance` the child's id is derived from the parent and the event id."""

    name: str
    input: str
    orchestration_version: str | None = None
    instance: str | None = None

    def matches(self, event: Event) -> bool:
        return (
            isinstance(event, events.SubOrchestrationScheduled)
            and event.name == self.name
            and event.input == self.input
        )

    def describe(self) -> str:
        return _call("SubOrchestrationScheduled", name=self.name, input=self.input)

    def record(self, envelope: Envelope) -> HistoryEvent:
        instance = self.instance or f"{envelope['instance']}::sub::{envelope['event_id']}"
        return events.SubOrchestrationScheduled(
            **envelope,
            name=self.name,
            child_instance=instance,
            input=self.input,
            orchestration_version=self.orchestration_version,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class StartDetached(Action):
    """Start another instance and forget about it."""

    name: str
    instance: str
    input: str
    orchestration_version: str | None = None

    def matches(self, event: Event) -> bool:
        return (
            isinstance(event, events.OrchestrationChained)
            and event.name == self.name
            and event.chained_instance == self.instance
            and event.input == self.input
        )

    def describe(self) -> str:
        return _call("OrchestrationChained", name=self.name, instance=self.instance, input=self.input)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.OrchestrationChained(
            **envelope,
            name=self.name,
            chained_instance=self.instance,
            input=self.input,
            orchestration_version=self.orchestration_version,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class SetStatus(Action):
    """Set or clear the custom status."""

    value: str | None

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.CustomStatusUpdated)

    def describe(self) -> str:
        return "CustomStatusUpdated"

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.CustomStatusUpdated(**envelope, value=self.value)


@dataclass(slots=True, eq=False, kw_only=True)
class SetKey(Action):
    """Set a key."""

    key: str
    value: str
    updated_at_ms: int

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.KeyValueSet) and (event.key, event.value) == (self.key, self.value)

    def describe(self) -> str:
        return _call("KeyValueSet", key=self.key, value=self.value)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.KeyValueSet(**envelope, key=self.key, value=self.value, updated_at_ms=self.updated_at_ms)


@dataclass(slots=True, eq=False, kw_only=True)
class ClearKey(Action):
    """Forget a key."""

    key: str

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.KeyValueCleared) and event.key == self.key

    def describe(self) -> str:
        return _call("KeyValueCleared", key=self.key)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.KeyValueCleared(**envelope, key=self.key)


@dataclass(slots=True, eq=False, kw_only=True)
class ClearKeys(Action):
    """Forget every key."""

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.KeyValuesCleared)

    def describe(self) -> str:
        return "KeyValuesCleared"

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.KeyValuesCleared(**envelope)


@dataclass(slots=True, eq=False, kw_only=True)
class PushMessage(Action):
    """Push to a Queen queue when the turn is committed."""

    queue: str
    partition: str
    payload: str
    seed: str

    def matches(self, event: Event) -> bool:
        return (
            isinstance(event, events.MessagePushed)
            and event.queue == self.queue
            and event.partition == self.partition
            and event.payload == self.payload
        )

    def describe(self) -> str:
        return _call("MessagePushed", queue=self.queue, partition=self.partition, payload=self.payload)

    def record(self, envelope: Envelope) -> HistoryEvent:
        transaction_id = f"{envelope['instance']}:{self.seed}:{envelope['event_id']}"
        return events.MessagePushed(
            **envelope,
            queue=self.queue,
            partition=self.partition,
            payload=self.payload,
            transaction_id=transaction_id,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class SendMessage(Action):
    """Send to a queue of another instance when the turn is committed."""

    target: str
    queue: str
    data: str

    def matches(self, event: Event) -> bool:
        return (
            isinstance(event, events.MessageSent)
            and event.target == self.target
            and event.queue == self.queue
            and event.data == self.data
        )

    def describe(self) -> str:
        return _call("MessageSent", target=self.target, queue=self.queue, data=self.data)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.MessageSent(**envelope, target=self.target, queue=self.queue, data=self.data)


@dataclass(slots=True, eq=False, kw_only=True)
class MarkPatch(Action):
    """From here on the code takes its new branch."""

    name: str

    def matches(self, event: Event) -> bool:
        return isinstance(event, events.PatchMarked) and event.name == self.name

    def describe(self) -> str:
        return _call("PatchMarked", name=self.name)

    def record(self, envelope: Envelope) -> HistoryEvent:
        return events.PatchMarked(**envelope, name=self.name)


Droppable = RunActivity | RunChild | AwaitEvent | Dequeue

_CANCELLATIONS: Mapping[type[Action], type[Event]] = {
    RunActivity: events.ActivityCancelRequested,
    RunChild: events.SubOrchestrationCancelRequested,
    AwaitEvent: events.ExternalSubscribedCancelled,
    Dequeue: events.QueueSubscriptionCancelled,
}


@dataclass(slots=True, eq=False, kw_only=True)
class Drop(Action):
    """The code no longer wants the result of `target`."""

    target: Droppable
    reason: str = field(default="dropped_future")

    def matches(self, event: Event) -> bool:
        return type(event) is _CANCELLATIONS[type(self.target)] and event.source_event_id == self.target.event_id

    def describe(self) -> str:
        return _call(_CANCELLATIONS[type(self.target)].__name__, of_event=self.target.event_id)

    def record(self, envelope: Envelope) -> HistoryEvent:
        kind: Any = _CANCELLATIONS[type(self.target)]
        dropped: HistoryEvent = kind(**envelope, source_event_id=self.target.event_id, reason=self.reason)
        return dropped


def describe_event(event: Event) -> str:
    """A recorded event the way `Action.describe` would say it."""
    kind = type(event).__name__
    fields = {
        name: getattr(event, name, None)
        for name in (
            "name",
            "input",
            "session_id",
            "tag",
            "chained_instance",
            "key",
            "value",
            "queue",
            "partition",
            "target",
        )
    }
    if isinstance(event, events.TimerCreated | events.CustomStatusUpdated):
        return kind
    if event.source_event_id is not None:
        return _call(kind, of_event=event.source_event_id)
    fields["session"] = fields.pop("session_id")
    fields["instance"] = fields.pop("chained_instance")
    return _call(kind, **fields)


def _call(kind: str, **fields: object) -> str:
    shown = ", ".join(f"{name}={_short(value)}" for name, value in fields.items() if value is not None)
    return f"{kind}({shown})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
