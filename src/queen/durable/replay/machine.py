"""The replay machine: feeds recorded events to the code, one at a time, and checks what the code asks for.

Two kinds of events. A *record* of something the code asked for (a schedule, a dropped branch, a key set)
must equal the next request the code made. An *arrival* (a completion, a timer, an outside event) settles a
promise, after which the code runs until it waits again. Requests made beyond the end of history wait in
`unbound` until the turn records them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from queen.durable import events
from queen.durable.errors import ActivityFailed, ChildFailed, NondeterminismDetected, OrchestrationRaised
from queen.durable.events import ApplicationFailure, Event, Failure
from queen.durable.model import ATTRIBUTE_PREFIX, KeyValue
from queen.durable.replay import action as actions
from queen.durable.replay.action import Action, describe_event
from queen.durable.replay.inbox import Inbox
from queen.durable.replay.inside import enter_turn, inside_turn, leave_turn
from queen.durable.replay.keys import Keys
from queen.durable.replay.limits import attribute_breach, custom_status_breach, kv_breach, tag_breach
from queen.durable.replay.promise import Cancelled, Promise, Scheduler, Task

TERMINAL_REASON = "orchestration_terminal_"
Scheduled = actions.RunActivity | actions.StartTimer | actions.RunChild
Wait = TypeVar("Wait", actions.AwaitEvent, actions.Dequeue)


class Entry(Protocol):
    """Makes the coroutine of an orchestration; it returns the output as JSON text."""

    def __call__(self, machine: Machine) -> Coroutine[Any, None, str]:
        """Begin the orchestration."""
        ...


class Machine:
    """One execution of one instance, rebuilt from its events."""

    def __init__(self, entry: Entry, snapshot: Mapping[str, KeyValue] | None = None) -> None:
        self.scheduler = Scheduler()
        self.keys = Keys(snapshot or {})
        self.inbox = Inbox()
        self.unbound: deque[Action] = deque()
        self.open: dict[int, Scheduled] = {}
        self.dropped_timers: list[actions.StartTimer] = []
        self.custom_status: str | None = None
        self.replaying = True
        self.now_ms = 0
        self.cancel_reason: str | None = None
        self.failure: Failure | None = None
        self.breach: str | None = None
        self.patches: set[str] = set()
        self.queries: dict[str, Callable[..., Any]] = {}
        self._patched: dict[str, bool] = {}
        self.end: Event | None = None
        self._entry = entry
        self._main: Task[str] | None = None
        self._started: events.OrchestrationStarted | None = None
        self._closed: set[int] = set()
        self._last_event_id = 0

    # -- what contexts read -----------------------------------------------------------------------------------

    @property
    def started(self) -> events.OrchestrationStarted:
        """The first event: name, version, input, parent."""
        if self._started is None:
            raise NondeterminismDetected("corrupted history: the first event is not OrchestrationStarted")
        return self._started

    @property
    def main(self) -> Task[str]:
        """The orchestration's own task."""
        if self._main is None:
            raise NondeterminismDetected("corrupted history: it is empty")
        return self._main

    @property
    def seed(self) -> str:
        """What ids made now are made from: the same in every replay, another in every new execution."""
        return self.started.seed_at(self._last_event_id)

    # -- what contexts ask for --------------------------------------------------------------------------------

    def run_activity(self, action: actions.RunActivity) -> Promise[str]:
        """Schedule an activity."""
        if action.tag is not None:
            self.note(tag_breach(action.name, action.tag))
        return self._ask(action, lambda: self._drop(action))

    def run_child(self, action: actions.RunChild) -> Promise[str]:
        """Schedule a sub-orchestration."""
        return self._ask(action, lambda: self._drop(action))

    def start_timer(self, action: actions.StartTimer) -> Promise[None]:
        """Schedule a timer. The message of a dropped one is taken back; one awaited again is set again."""
        current = action

        def again() -> None:
            nonlocal current
            delay, until = action.delay_ms, action.fire_at_ms or action.until_ms
            current = actions.StartTimer(delay_ms=delay, until_ms=until, promise=action.promise)
            self.unbound.append(current)

        return self._ask(action, lambda: self.dropped_timers.append(current), again)

    def wait_event(self, action: actions.AwaitEvent) -> Promise[str]:
        """Wait for an external event."""
        return self._subscribe(action, self.inbox.wait)

    def dequeue(self, action: actions.Dequeue) -> Promise[str]:
        """Take the next message of one of the instance's queues."""
        return self._subscribe(action, self.inbox.dequeue)

    def tell(self, action: actions.StartDetached | actions.PushMessage | actions.SendMessage) -> None:
        """Ask for something that has no answer."""
        self.unbound.append(action)

    def set_status(self, value: str | None) -> None:
        """Set or clear the custom status."""
        if value is not None:
            self.note(custom_status_breach(value))
        self.custom_status = value
        self.unbound.append(actions.SetStatus(value=value))

    def set_key(self, key: str, value: str) -> None:
        """Set one key-value pair."""
        self.keys.set(key, value, self.now_ms)
        self.note(kv_breach(key, value, len(self.keys)))
        self.unbound.append(actions.SetKey(key=key, value=value, updated_at_ms=self.now_ms))

    def set_attribute(self, name: str, value: str) -> None:
        """Set what the instance can be found by."""
        key = f"{ATTRIBUTE_PREFIX}{name}"
        self.keys.set(key, value, self.now_ms)
        self.note(attribute_breach(name, value, self.keys.attributes()))
        self.unbound.append(actions.SetKey(key=key, value=value, updated_at_ms=self.now_ms))

    def clear_key(self, key: str) -> None:
        """Forget one key."""
        self.keys.clear(key)
        self.unbound.append(actions.ClearKey(key=key))

    def clear_keys(self) -> None:
        """Forget every key."""
        self.keys.clear_all()
        self.unbound.append(actions.ClearKeys())

    def patched(self, name: str) -> bool:
        """Whether the code takes a new branch: yes where it is new, in replay only where it was taken before."""
        taken = self._patched.get(name)
        if taken is None:
            taken = self._patched[name] = name in self.patches or not self.replaying
            if taken:
                self.unbound.append(actions.MarkPatch(name=name))
        return taken

    def note(self, breach: str | None) -> None:
        """Remember the first broken limit of the new part of a turn."""
        if breach is not None and self.breach is None and not self.replaying:
            self.breach = breach

    # -- feeding events ---------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Feed the next event, recorded or new, and run the code as far as it goes."""
        if self._started is None and not isinstance(event, events.OrchestrationStarted):
            raise NondeterminismDetected("corrupted history: the first event is not OrchestrationStarted")
        self._last_event_id = event.event_id
        handler = _ARRIVALS.get(type(event))
        if handler is None:
            self._bind(event)
            return
        self.now_ms = max(self.now_ms, event.timestamp_ms)
        inside = enter_turn()
        try:
            handler(self, event)
            self.scheduler.drain()
        finally:
            leave_turn(inside)

    def bound(self, action: Action, event_id: int) -> None:
        """The request now has an event of its own."""
        action.event_id = event_id
        if isinstance(action, Scheduled):
            self.open[event_id] = action

    @property
    def ended(self) -> bool:
        """The code is finished, or may not go on."""
        return self.failure is not None or not self.main.pending

    def in_flight(self) -> list[actions.RunActivity]:
        """Activities whose result is still wanted."""
        return [each for each in self.open.values() if isinstance(each, actions.RunActivity) and _wanted(each)]

    def open_children(self) -> list[actions.RunChild]:
        """Sub-orchestrations whose result is still wanted."""
        return [each for each in self.open.values() if isinstance(each, actions.RunChild) and _wanted(each)]

    def unwanted_timers(self) -> list[int]:
        """Timers this turn stopped waiting for, by their event ids."""
        dropped = (each.event_id for each in self.dropped_timers if not _wanted(each))
        return sorted({event_id for event_id in dropped if event_id is not None and event_id in self.open})

    def close(self) -> None:
        """Let go of the code; what its clean-up asks for or says on the way out goes nowhere."""
        self.replaying = True
        if self._main is not None:
            with inside_turn():
                self._main.close()

    def _ask(
        self, action: Action, on_cancel: Callable[[], None] | None, on_return: Callable[[], None] | None = None
    ) -> Promise[Any]:
        action.promise = Promise(self.scheduler, on_cancel, on_return)
        self.unbound.append(action)
        return action.promise

    def _subscribe(self, wait: Wait, enter: Callable[[Wait], None]) -> Promise[str]:
        """Wait from now on; a dropped wait that is awaited again is a new wait with the same promise."""
        current = wait

        def again() -> None:
            nonlocal current
            current = replace(wait, event_id=None, received=None)
            self.unbound.append(current)
            enter(current)

        promise = self._ask(wait, lambda: self._drop_wait(current), again)
        enter(wait)
        return promise

    def _drop(self, target: actions.RunActivity | actions.RunChild) -> None:
        if target.event_id is None or target.event_id in self.open:
            self._emit_drop(target)

    def _drop_wait(self, target: actions.AwaitEvent | actions.Dequeue) -> None:
        self._emit_drop(target)
        self.inbox.drop(target)

    def _emit_drop(self, target: actions.Droppable) -> None:
        reason = "dropped_future" if self.cancel_reason is None else f"{TERMINAL_REASON}failed"
        self.unbound.append(actions.Drop(target=target, reason=reason))

    def _bind(self, event: Event) -> None:
        head = self.unbound[0] if self.unbound else None
        if head is not None and head.matches(event):
            self.unbound.popleft()
            self.bound(head, event.event_id)
            return
        if getattr(event, "reason", "").startswith(TERMINAL_REASON):
            return
        error = self.main.error
        raise self._mismatch(event, head) from error.__cause__ or error if error is not None else None

    def _mismatch(self, event: Event, head: Action | None) -> NondeterminismDetected:
        recorded = describe_event(event)
        if head is not None:
            found = f"the code asked for {head.describe()}"
        elif self.main.error is not None:
            found = f"the code had raised {_raised(self.main.error)}"
        elif self.main.settled:
            found = "the code had already finished"
        else:
            found = "the code asked for nothing"
        text = f"at event {event.event_id} history has {recorded}, but {found}"
        return NondeterminismDetected(text, event_id=event.event_id, recorded=recorded, found=found)

    # -- arrivals ---------------------------------------------------------------------------------------------

    def _start(self, event: events.OrchestrationStarted) -> None:
        if self._started is not None:
            raise NondeterminismDetected(f"at event {event.event_id} history starts a second time")
        self._started = event
        self.custom_status = event.initial_custom_status
        if event.initial_keys is not None:
            self.keys = Keys({key: KeyValue(value, at) for key, value, at in event.initial_keys})
        for name, value in event.attributes.items():
            self.keys.set(f"{ATTRIBUTE_PREFIX}{name}", value, event.timestamp_ms)
        for carried in event.carried_events:
            self.inbox.enqueue(carried.name, carried.data)
        self._main = Task(self.scheduler, self._entry(self))
        self._main.start()

    def _scheduled(self, event: Event, kind: type[Scheduled]) -> Scheduled:
        source = event.source_event_id or 0
        found = self.open.pop(source, None)
        name = type(event).__name__
        if found is None:
            problem = "was already completed" if source in self._closed else "does not schedule anything"
            raise NondeterminismDetected(f"at event {event.event_id} history has {name}, but event {source} {problem}")
        if not isinstance(found, kind):
            raise NondeterminismDetected(
                f"at event {event.event_id} history has {name}, but event {source} is {found.describe()}"
            )
        self._closed.add(source)
        return found

    def _activity_completed(self, event: events.ActivityCompleted) -> None:
        _resolve(self._scheduled(event, actions.RunActivity), event.result)

    def _activity_failed(self, event: events.ActivityFailed) -> None:
        target = self._scheduled(event, actions.RunActivity)
        self._fail(target, event.details, ActivityFailed(event.details))

    def _timer_fired(self, event: events.TimerFired) -> None:
        _resolve(self._scheduled(event, actions.StartTimer), None)

    def _child_completed(self, event: events.SubOrchestrationCompleted) -> None:
        _resolve(self._scheduled(event, actions.RunChild), event.result)

    def _child_failed(self, event: events.SubOrchestrationFailed) -> None:
        target = self._scheduled(event, actions.RunChild)
        self._fail(target, event.details, ChildFailed(event.details))

    def _fail(self, target: Action, details: Failure, error: Exception) -> None:
        if not isinstance(details, ApplicationFailure):
            self.failure = details
        elif target.promise is not None:
            target.promise.reject(error)

    def _external(self, event: events.ExternalEvent) -> None:
        self.inbox.raise_event(event.name, event.data, kept=event.kept)

    def _queued(self, event: events.QueueEventDelivered) -> None:
        self.inbox.enqueue(event.name, event.data)

    def _cancel(self, event: events.OrchestrationCancelRequested) -> None:
        if self.cancel_reason is None:
            self.cancel_reason = event.reason
            if self.main.pending:
                self.main.interrupt(Cancelled(event.reason))

    def _nothing(self, _event: Event) -> None:
        """What is recorded for people only."""

    def _end(self, event: Event) -> None:
        self.end = event


def _raised(error: BaseException) -> str:
    raised = error.__cause__ if isinstance(error, OrchestrationRaised) and error.__cause__ else error
    return f"{type(raised).__name__}: {raised}"


def _wanted(action: Action) -> bool:
    return action.promise is not None and action.promise.pending


def _resolve(action: Action, value: object) -> None:
    if action.promise is not None:
        action.promise.resolve(value)


_ARRIVALS: Mapping[type[Event], Callable[[Machine, Any], None]] = {
    events.OrchestrationStarted: Machine._start,
    events.ActivityCompleted: Machine._activity_completed,
    events.ActivityFailed: Machine._activity_failed,
    events.TimerFired: Machine._timer_fired,
    events.SubOrchestrationCompleted: Machine._child_completed,
    events.SubOrchestrationFailed: Machine._child_failed,
    events.ExternalEvent: Machine._external,
    events.QueueEventDelivered: Machine._queued,
    events.OrchestrationCancelRequested: Machine._cancel,
    events.OrchestrationParked: Machine._nothing,
    events.OrchestrationCompleted: Machine._end,
    events.OrchestrationFailed: Machine._end,
    events.OrchestrationContinuedAsNew: Machine._end,
}
