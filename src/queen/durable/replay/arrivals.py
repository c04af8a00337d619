"""From a locked batch of messages to the new events of a turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from queen.durable import events, messages
from queen.durable.events import ApplicationFailure, HistoryEvent
from queen.durable.messages import OrchestratorMessage
from queen.durable.model import ENDED, OrchestrationItem
from queen.durable.replay.action import Envelope
from queen.durable.replay.machine import Machine

Beginning = messages.StartMessage | messages.ContinueAsNewMessage
Terminal = events.OrchestrationCompleted | events.OrchestrationFailed | events.OrchestrationContinuedAsNew
Completion = (
    events.ActivityCompleted
    | events.ActivityFailed
    | events.TimerFired
    | events.SubOrchestrationCompleted
    | events.SubOrchestrationFailed
)
_Arrival = Completion | events.ExternalEvent | events.QueueEventDelivered | events.OrchestrationCancelRequested
_Cancellation = events.ActivityCancelRequested | events.SubOrchestrationCancelRequested


@dataclass(slots=True)
class Ledger:
    """Hands out event ids in order and stamps new events; time never goes back within an execution."""

    instance: str
    execution_id: int
    last_event_id: int
    now_ms: int
    version: str

    def envelope(self) -> Envelope:
        """The envelope of the next event."""
        self.last_event_id += 1
        return Envelope(
            event_id=self.last_event_id,
            instance=self.instance,
            execution_id=self.execution_id,
            timestamp_ms=self.now_ms,
            version=self.version,
        )


@dataclass(slots=True)
class Memory:
    """What is known of one execution: all that later turns need of its events, and the machine that has seen them.

    `open` has what was scheduled and not answered, with the event that would cancel it (timers have none).
    """

    started: events.OrchestrationStarted | None = None
    last: HistoryEvent | None = None
    open: dict[int, type[_Cancellation] | None] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    cancelled: bool = False
    machine: Machine | None = None

    @property
    def last_event_id(self) -> int:
        """How many events it has seen."""
        return self.last.event_id if self.last is not None else 0

    def note(self, event: HistoryEvent) -> None:
        """Learn of the next event."""
        self.last = event
        match event:
            case events.ActivityScheduled():
                self.open[event.event_id] = events.ActivityCancelRequested
            case events.SubOrchestrationScheduled():
                self.open[event.event_id] = events.SubOrchestrationCancelRequested
                self.children[event.event_id] = event.child_instance
            case events.TimerCreated():
                self.open[event.event_id] = None
            case events.OrchestrationCancelRequested():
                self.cancelled = True
            case events.OrchestrationStarted() if event.event_id == 1:
                self.started = event
            case _ if isinstance(event, Completion | _Cancellation):
                self.open.pop(event.source_event_id or 0, None)
            case _:
                pass

    def close(self) -> None:
        """Let go of the code."""
        if self.machine is not None:
            self.machine.close()
            self.machine = None


@dataclass(slots=True, kw_only=True)
class Batch:
    """What a turn replays (`history`, `restored`) and what is new to it (`fresh`).

    `restored` is the history of an earlier execution this one begins with; it is stored with the turn. `memory` knows
    all events but the fresh ones; its machine, when it has one, has seen those before `history`. `stored` is how many
    events there were before the turn.
    """

    name: str
    version: str | None
    history: Sequence[HistoryEvent]
    ledger: Ledger
    memory: Memory
    stored: int = 0
    beginning: Beginning | None = None
    messages: Sequence[OrchestratorMessage] = ()
    restored: Sequence[HistoryEvent] = ()
    fresh: list[HistoryEvent] = field(default_factory=list)

    @property
    def started(self) -> events.OrchestrationStarted | None:
        """The first event, recorded or new, when there is one."""
        if self.memory.started is not None or self.stored:
            return self.memory.started
        first = next(iter([*self.restored[:1], *self.fresh[:1]]), None)
        return first if isinstance(first, events.OrchestrationStarted) else None


def open_batch(
    item: OrchestrationItem, *, now_ms: int, runtime_version: str, memory: Memory | None = None
) -> Batch | None:
    """What the batch asks of the instance; `None` when it is over, or has not begun, and nothing begins it.

    With a `memory` of the execution the item's history is what that has not seen yet.
    """
    beginning = _beginning(item)
    history = [] if beginning is not None else item.history
    known = Memory() if memory is None or beginning is not None else memory
    for event in history:
        known.note(event)
    last = known.last
    if beginning is not None:
        execution_id = item.execution_id + 1 if item.history else beginning.execution_id
        name, version = beginning.name, beginning.version
    elif last is None or isinstance(last, Terminal):
        return None
    else:
        execution_id = item.execution_id
        name, version = _identity(item, known.started)
    ledger = Ledger(
        instance=item.instance,
        execution_id=execution_id,
        last_event_id=known.last_event_id,
        now_ms=max(now_ms, last.timestamp_ms if last else 0),
        version=runtime_version,
    )
    return Batch(
        name=name,
        version=version,
        history=history,
        ledger=ledger,
        memory=known,
        stored=known.last_event_id,
        beginning=beginning,
        messages=item.messages,
    )


def admit(batch: Batch, resolved_version: str, seed: str | None = None, *, limited: bool = False) -> None:
    """Turn the messages into events: foreign, repeated and unwanted completions are left out.

    `seed` is what a new execution makes its ids from; a `limited` one waits for its place first.
    """
    if batch.beginning is not None:
        _begin(batch, batch.beginning, resolved_version, seed, limited=limited)
        for restored in batch.restored:
            batch.memory.note(restored)
    filtered = _Admission(batch.memory, batch.ledger.execution_id)
    for message in batch.messages:
        if filtered.wants(message):
            event = _event(message, batch.ledger)
            if event is not None:
                batch.fresh.append(event)


def _begin(batch: Batch, beginning: Beginning, version: str, seed: str | None, *, limited: bool) -> None:
    restored = beginning.restored
    reused = isinstance(beginning, messages.StartMessage) and batch.ledger.execution_id > 1
    started = _started(beginning, version, seed, batch.ledger.envelope())
    if restored is None:
        batch.fresh.append(msgspec.structs.replace(started, initial_keys=() if reused else None, limited=limited))
        return
    first = restored.history[0]
    if isinstance(first, events.OrchestrationStarted):
        started = msgspec.structs.replace(
            started,
            input=first.input,
            timestamp_ms=first.timestamp_ms,
            carried_events=first.carried_events,
            initial_custom_status=first.initial_custom_status,
            earlier_seeds=restored.earlier_seeds,
            initial_keys=restored.keys,
            limited=first.limited,
        )
    envelope = {"instance": started.instance, "execution_id": started.execution_id}
    batch.restored = [started, *(msgspec.structs.replace(each, **envelope) for each in restored.history[1:])]
    batch.ledger.last_event_id = len(batch.restored)


def last_event_id(batch: Batch) -> int:
    """The id of the last event that is recorded or admitted."""
    events_so_far = batch.fresh or batch.restored or batch.history
    return events_so_far[-1].event_id if events_so_far else batch.stored


def is_parked(history: Sequence[HistoryEvent]) -> bool:
    """Whether the last turn of a history parked the instance, or only added to a parked one."""
    for event in reversed(history):
        if isinstance(event, events.OrchestrationParked):
            return True
        if not isinstance(event, _Arrival):
            return False
    return False


def open_work(history: Iterable[HistoryEvent]) -> list[tuple[type[_Cancellation], int]]:
    """Activities and children nobody has an answer of yet, as the events that cancel them."""
    found: dict[int, type[_Cancellation]] = {}
    for event in history:
        if isinstance(event, events.ActivityScheduled):
            found[event.event_id] = events.ActivityCancelRequested
        elif isinstance(event, events.SubOrchestrationScheduled):
            found[event.event_id] = events.SubOrchestrationCancelRequested
        elif isinstance(event, Completion | _Cancellation):
            found.pop(event.source_event_id or 0, None)
    return [(kind, source) for source, kind in found.items()]


def refused_children(
    batch: Sequence[OrchestratorMessage], beginning: Beginning | None
) -> list[messages.SubOrchestrationFailedMessage]:
    """Answers to parents whose child cannot start: the instance exists, and is not theirs to wait for."""
    return [
        messages.SubOrchestrationFailedMessage(
            instance=each.parent_instance,
            execution_id=each.parent_execution_id or 1,
            parent_event_id=each.parent_event_id or 0,
            details=ApplicationFailure(message=f"an instance {each.instance!r} already exists", cause="orchestration"),
        )
        for each in batch
        if isinstance(each, messages.StartMessage) and each.parent_instance is not None and each is not beginning
    ]


def _beginning(item: OrchestrationItem) -> Beginning | None:
    has_begun = bool(item.last_event_id or item.history)
    ended = item.status in (*ENDED, "ContinuedAsNew") or (bool(item.history) and isinstance(item.history[-1], Terminal))
    for message in item.messages:
        match message:
            case messages.ContinueAsNewMessage():
                next_one = item.execution_id + 1 if ended else item.execution_id
                if message.execution_id == next_one and (ended or not has_begun):
                    return message
            case messages.StartMessage() if item.is_new and not has_begun:
                return message
            case messages.StartMessage() if ended and _may_reuse(message.reuse, item.history[-1]):
                return message
            case _:
                continue
    return None


def _may_reuse(reuse: messages.Reuse, end: HistoryEvent) -> bool:
    if isinstance(end, events.OrchestrationFailed):
        return reuse != "never"
    return reuse == "ended" and isinstance(end, events.OrchestrationCompleted)


def _identity(item: OrchestrationItem, started: events.OrchestrationStarted | None) -> tuple[str, str | None]:
    if started is not None:
        return started.name, started.orchestration_version
    return item.name or "", item.version


def _started(begin: Beginning, version: str, seed: str | None, envelope: Envelope) -> events.OrchestrationStarted:
    continued = begin if isinstance(begin, messages.ContinueAsNewMessage) else None
    return events.OrchestrationStarted(
        **envelope,
        name=begin.name,
        orchestration_version=version,
        input=begin.input,
        parent_instance=begin.parent_instance,
        parent_execution_id=begin.parent_execution_id,
        parent_event_id=begin.parent_event_id,
        carried_events=continued.carried_events if continued else (),
        initial_custom_status=continued.custom_status if continued else None,
        trace_id=begin.trace_id,
        seed=seed,
        attributes=begin.attributes if isinstance(begin, messages.StartMessage) else {},
    )


class _Admission:
    """Goes by what is open in an execution to decide which messages still mean something."""

    def __init__(self, memory: Memory, execution_id: int) -> None:
        self._execution_id = execution_id
        self._open = memory.open
        self._cancelled = memory.cancelled

    def wants(self, message: OrchestratorMessage) -> bool:
        if isinstance(message, Beginning | messages.ResumeMessage | messages.ResetMessage):
            return False
        if isinstance(message, messages.CancelMessage):
            first, self._cancelled = not self._cancelled, True
            return first
        source = _source(message)
        if source is None:
            return True
        execution_id, event_id = source
        wanted = execution_id == self._execution_id and event_id in self._open
        if wanted:
            del self._open[event_id]
        return wanted


def _source(message: OrchestratorMessage) -> tuple[int, int] | None:
    match message:
        case messages.ActivityCompletedMessage() | messages.ActivityFailedMessage():
            return message.execution_id, message.activity_id
        case messages.TimerFiredMessage():
            return message.execution_id, message.timer_id
        case messages.SubOrchestrationCompletedMessage() | messages.SubOrchestrationFailedMessage():
            return message.execution_id, message.parent_event_id
        case _:
            return None


def _event(message: OrchestratorMessage, ledger: Ledger) -> HistoryEvent | None:
    stamp = ledger.envelope()
    match message:
        case messages.ActivityCompletedMessage():
            return events.ActivityCompleted(**stamp, source_event_id=message.activity_id, result=message.result)
        case messages.ActivityFailedMessage():
            return events.ActivityFailed(**stamp, source_event_id=message.activity_id, details=message.details)
        case messages.TimerFiredMessage():
            return events.TimerFired(**stamp, source_event_id=message.timer_id, fire_at_ms=message.fire_at_ms)
        case messages.SubOrchestrationCompletedMessage():
            source = message.parent_event_id
            return events.SubOrchestrationCompleted(**stamp, source_event_id=source, result=message.result)
        case messages.SubOrchestrationFailedMessage():
            source = message.parent_event_id
            return events.SubOrchestrationFailed(**stamp, source_event_id=source, details=message.details)
        case messages.ExternalRaisedMessage():
            return events.ExternalEvent(**stamp, name=message.name, data=message.data)
        case messages.QueueMessage():
            return events.QueueEventDelivered(**stamp, name=message.name, data=message.data)
        case messages.CancelMessage():
            return events.OrchestrationCancelRequested(**stamp, reason=message.reason)
        case _:
            return None
