"""One turn: replay, run the code on, and say everything that has to be committed. Pure: no clock, no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from queen.durable import events, messages
from queen.durable.errors import NondeterminismDetected, OrchestrationRaised
from queen.durable.events import ApplicationFailure, CarriedEvent, Failure, HistoryEvent
from queen.durable.messages import OrchestratorMessage
from queen.durable.model import ExecutionMetadata, KeyValue, TurnCommit
from queen.durable.raised import failure_of, traceback_of
from queen.durable.replay import syscalls
from queen.durable.replay.action import Action, AwaitEvent, Envelope, RunActivity
from queen.durable.replay.arrivals import Batch, Ledger, is_parked, last_event_id, refused_children
from queen.durable.replay.effects import PARENT_CANCELLED, Effects
from queen.durable.replay.limits import MAX_ROUNDS
from queen.durable.replay.machine import TERMINAL_REASON, Entry, Machine
from queen.durable.replay.promise import Cancelled, ContinueAsNew


class Completed(msgspec.Struct, frozen=True):
    """The orchestration returned."""

    output: str


class Failed(msgspec.Struct, frozen=True):
    """The orchestration failed."""

    details: Failure


class Continued(msgspec.Struct, frozen=True):
    """The orchestration starts over with a new input."""

    input: str
    version: str | None = None


class Parked(msgspec.Struct, frozen=True):
    """The code does not fit the history; the instance waits for code that does."""

    reason: str
    at_event: int | None = None
    recorded: str | None = None
    found: str | None = None
    traceback: str = ""

    @classmethod
    def by(cls, mismatch: NondeterminismDetected) -> Self:
        """As the mismatch says, with the traceback of what the code raised, if it did."""
        raised = mismatch.__cause__
        return cls(
            reason=str(mismatch),
            at_event=mismatch.event_id,
            recorded=mismatch.recorded,
            found=mismatch.found,
            traceback="" if raised is None else traceback_of(raised),
        )


Outcome = Completed | Failed | Continued | Parked | None


@dataclass(slots=True, frozen=True)
class Turn:
    """What a turn did: how the execution stands now, and what to commit."""

    outcome: Outcome
    commit: TurnCommit


def run_turn(
    batch: Batch, entry: Entry, *, kv: Mapping[str, KeyValue], new_guid: Callable[[], str], keep: bool = False
) -> Turn:
    """Replay `batch.history`, feed `batch.fresh`, record what the code asks for beyond it.

    With `keep` the machine of an execution that goes on stays in `batch.memory` for the next turn.
    """
    machine = batch.memory.machine or Machine(entry, kv)
    batch.memory.machine = None
    recorder = _Recorder(batch.ledger, machine, new_guid)
    outcome: Outcome = None
    kept = False
    try:
        _feed(machine, batch)
        recorder.record()
        outcome = _outcome(machine)
    except NondeterminismDetected as mismatch:
        recorder.forget()
        outcome = Parked.by(mismatch)
    else:
        kept = keep and outcome is None
    finally:
        if not kept:
            machine.close()
    if isinstance(outcome, Parked):
        return _park(batch, outcome)
    if outcome is not None:
        recorder.end(outcome)
    delta = [*batch.fresh, *recorder.recorded]
    commit = _commit(batch, machine, delta, outcome)
    if kept:
        for event in delta:
            batch.memory.note(event)
        batch.memory.machine = machine
    return Turn(outcome, commit)


def _park(batch: Batch, outcome: Parked) -> Turn:
    """Keep what arrived; nothing the code asked for counts. A reason already told is not told again."""
    delta = list(batch.fresh)
    if delta or not is_parked(batch.history):
        told = {name: getattr(outcome, name) for name in outcome.__struct_fields__}
        delta.append(events.OrchestrationParked(**batch.ledger.envelope(), **told))
    return Turn(outcome, _commit(batch, None, delta, outcome))


def fail_turn(batch: Batch, details: Failure) -> Turn:
    """End the instance without running its code: poisoned, refused by the store, or forced to end.

    Its open activities and children are cancelled.
    """
    batch.ledger.last_event_id = last_event_id(batch)
    reason = f"{TERMINAL_REASON}failed"
    delta = list(batch.fresh)
    for source, kind in batch.memory.open.items():
        if kind is not None:
            delta.append(kind(**batch.ledger.envelope(), source_event_id=source, reason=reason))
    delta.append(events.OrchestrationFailed(**batch.ledger.envelope(), details=details))
    outcome = Failed(details)
    return Turn(outcome, _commit(batch, None, delta, outcome))


def _feed(machine: Machine, batch: Batch) -> None:
    machine.replaying = True
    known = [*batch.history, *batch.restored]
    machine.patches |= {each.name for each in known if isinstance(each, events.PatchMarked)}
    for event in known:
        machine.apply(event)
    machine.replaying = False
    machine.dropped_timers.clear()
    for event in batch.fresh:
        machine.apply(event)
        if machine.failure is not None:
            return


class _Recorder:
    """Gives every new request of the code an event of its own."""

    def __init__(self, ledger: Ledger, machine: Machine, new_guid: Callable[[], str]) -> None:
        self.recorded: list[HistoryEvent] = []
        self._ledger = ledger
        self._machine = machine
        self._first = ledger.last_event_id
        self._new_guid = new_guid

    def record(self) -> None:
        rounds = 0
        while self._machine.unbound and self._machine.failure is None:
            rounds += 1
            if rounds > MAX_ROUNDS:
                self._machine.breach = f"the code went on for more than {MAX_ROUNDS} rounds in one turn"
            if self._machine.breach is not None:
                self.forget()
                self._machine.failure = ApplicationFailure(message=self._machine.breach, cause="orchestration")
                return
            for answer in self._record_round():
                event = events.ActivityCompleted(**self._ledger.envelope(), **answer)
                self.recorded.append(event)
                self._machine.apply(event)

    def forget(self) -> None:
        self.recorded.clear()
        self._ledger.last_event_id = self._first

    def end(self, outcome: Completed | Failed | Continued) -> None:
        word = {Completed: "completed", Failed: "failed", Continued: "continued_as_new"}[type(outcome)]
        reason = TERMINAL_REASON + word
        kept = {event.event_id for event in self.recorded}
        for activity in self._machine.in_flight():
            if self._is_recorded(activity, kept):
                self._cancel(events.ActivityCancelRequested, activity, reason)
        for wait in self._machine.inbox.waiting():
            if self._is_recorded(wait, kept):
                external = isinstance(wait, AwaitEvent)
                kind = events.ExternalSubscribedCancelled if external else events.QueueSubscriptionCancelled
                self._cancel(kind, wait, reason)
        if not isinstance(outcome, Continued):
            for child in self._machine.open_children():
                if self._is_recorded(child, kept):
                    self._cancel(events.SubOrchestrationCancelRequested, child, reason)
        self.recorded.append(_terminal(outcome, self._ledger.envelope()))

    def _is_recorded(self, action: Action, kept: set[int]) -> bool:
        return action.event_id is not None and (action.event_id <= self._first or action.event_id in kept)

    def _cancel(self, kind: Any, action: Action, reason: str) -> None:
        self.recorded.append(kind(**self._ledger.envelope(), source_event_id=action.event_id, reason=reason))

    def _record_round(self) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        unbound = self._machine.unbound
        while unbound:
            action = unbound.popleft()
            event = action.record(self._ledger.envelope())
            self.recorded.append(event)
            self._machine.bound(action, event.event_id)
            if isinstance(action, RunActivity) and action.name in syscalls.ANSWERED_IN_TURN:
                result = syscalls.answer(action.name, self._ledger.now_ms, self._new_guid)
                answers.append({"source_event_id": event.event_id, "result": result})
        return [] if self._machine.ended else answers


def _outcome(machine: Machine) -> Outcome:
    if not machine.ended:
        return None
    if machine.cancel_reason is not None:
        return Failed(ApplicationFailure(message=machine.cancel_reason, cause="cancelled"))
    if machine.failure is not None:
        return Failed(machine.failure)
    error = machine.main.error
    if error is None:
        return Completed(machine.main.result())
    if isinstance(error, ContinueAsNew):
        return Continued(error.input, error.version)
    if isinstance(error, Cancelled):
        return Failed(ApplicationFailure(message=error.reason, cause="cancelled"))
    if isinstance(error, OrchestrationRaised):
        return Failed(failure_of(error.__cause__ or error, str(error), "orchestration"))
    return Failed(failure_of(error, f"{type(error).__name__}: {error}", "panicked"))


def _terminal(outcome: Completed | Failed | Continued, envelope: Envelope) -> HistoryEvent:
    match outcome:
        case Completed(output):
            return events.OrchestrationCompleted(**envelope, output=output)
        case Failed(details):
            return events.OrchestrationFailed(**envelope, details=details)
        case Continued(input):
            return events.OrchestrationContinuedAsNew(**envelope, input=input)


def _commit(batch: Batch, machine: Machine | None, delta: Sequence[HistoryEvent], outcome: Outcome) -> TurnCommit:
    ended = outcome is not None and not isinstance(outcome, Parked)
    effects = Effects(batch, ended=ended, to_children=_to_children(outcome))
    effects.resume(batch.restored)
    for event in delta:
        effects.add(event)
    if ended:
        carried = machine.inbox.unconsumed() if machine is not None else ()
        status = machine.custom_status if machine is not None else None
        effects.end(delta[-1], getattr(outcome, "version", None), carried, status)
        effects.messages += _started_again(batch, outcome, carried)
    withdrawn = machine.unwanted_timers() if machine is not None and outcome is None else ()
    effects.withdraw(withdrawn)
    return TurnCommit(
        execution_id=batch.ledger.execution_id,
        history_delta=(*batch.restored, *delta),
        worker_items=tuple(effects.tasks),
        orchestrator_items=(*refused_children(batch.messages, batch.beginning), *effects.messages),
        metadata=_metadata(batch, outcome),
        cancelled_activities=tuple(effects.cancelled),
        pushes=tuple(effects.pushes),
        withdrawn_timers=tuple(withdrawn),
    )


def _started_again(batch: Batch, outcome: Outcome, carried: Sequence[CarriedEvent]) -> list[OrchestratorMessage]:
    """A start that followed the cancellation which ended the instance, with the messages nobody took."""
    cancelled = False
    for message in batch.messages:
        cancelled = cancelled or isinstance(message, messages.CancelMessage)
        if cancelled and isinstance(message, messages.StartMessage) and message.reuse != "never":
            if isinstance(outcome, Continued) or message is batch.beginning:
                return []
            unread = [
                messages.QueueMessage(instance=message.instance, name=each.name, data=each.data) for each in carried
            ]
            return [message, *unread]
    return []


def _to_children(outcome: Outcome) -> str:
    match outcome:
        case Completed():
            return "parent completed"
        case Failed(details) if not is_cancelled(details):
            return "parent failed"
        case _:
            return PARENT_CANCELLED


def is_cancelled(details: Failure) -> bool:
    """Whether an instance that ended like this was cancelled."""
    return isinstance(details, ApplicationFailure) and details.cause == "cancelled"


def _metadata(batch: Batch, outcome: Outcome) -> ExecutionMetadata:
    started = batch.started
    is_first = batch.beginning is not None
    status, output = _result(outcome)
    return ExecutionMetadata(
        name=batch.name if is_first else None,
        version=started.orchestration_version if is_first and started else None,
        parent_instance=started.parent_instance if is_first and started else None,
        status=status,
        output=output,
        pinned_version=batch.ledger.version if is_first else None,
        trace_id=started.trace_id if is_first and started else None,
    )


def _result(outcome: Outcome) -> tuple[Any, str | None]:
    match outcome:
        case Completed(output):
            return "Completed", output
        case Failed(details):
            return "Cancelled" if is_cancelled(details) else "Failed", details.display()
        case Parked(reason):
            return "Parked", f"nondeterministic: {reason}"
        case Continued(input):
            return "ContinuedAsNew", input
        case None:
            return None, None
