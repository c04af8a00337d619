"""One instance in memory: messages in, turns, messages out, history in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from queen.durable import events, messages
from queen.durable.duroxide.generators import generator_entry
from queen.durable.events import ApplicationFailure, Failure, HistoryEvent
from queen.durable.messages import ActivityTask, OrchestratorMessage
from queen.durable.model import KeyValue, OrchestrationItem
from queen.durable.replay.arrivals import Memory, admit, open_batch
from queen.durable.replay.machine import Entry
from queen.durable.replay.turn import Completed, Failed, Parked, Turn, run_turn

Orchestrator = Callable[[Any, Any], Generator[Any, Any, Any]]
FIRST_MS = 1_700_000_000_000


def _nothing(_ctx: Any, _value: Any) -> Any:
    return None


class Stage:
    """Plays turns of one instance; `now_ms` moves one second with every turn.

    Each turn is played twice, with a machine made from the history and with one kept from the turn before: both must
    do the same. `once` is for code that is seen from outside.
    """

    def __init__(
        self, code: Orchestrator | None = None, *, entry: Entry | None = None, instance: str = "i", once: bool = False
    ) -> None:
        self.entry: Entry = entry or generator_entry(code or _nothing)
        self.instance = instance
        self.now_ms = FIRST_MS
        self.execution_id = 1
        self.history: list[HistoryEvent] = []
        self.kv: dict[str, KeyValue] = {}
        self.turns: list[Turn] = []
        self.tasks: list[ActivityTask] = []
        self.sent: list[OrchestratorMessage] = []
        self._guids = itertools.count(1)
        self._kept_guids = itertools.count(1)
        self._memory: Memory | None = None
        self._kept_entry = self.entry
        self._once = once

    def start(self, value: str = "null", **fields: Any) -> Turn:
        """The first turn."""
        return self.feed(messages.StartMessage(instance=self.instance, name="o", input=value, **fields))

    def feed(self, *batch: OrchestratorMessage) -> Turn:
        """One turn with these messages; an ended instance answers with an empty turn."""
        item = OrchestrationItem(
            instance=self.instance,
            token="token",
            attempt=1,
            name=None,
            version=None,
            execution_id=self.execution_id,
            history=list(self.history),
            messages=list(batch),
            kv=self.kv,
            is_new=not self.history,
        )
        self.now_ms += 1000
        opened = open_batch(item, now_ms=self.now_ms, runtime_version="1.0.0")
        assert opened is not None, "the instance is over"
        admit(opened, "1.0.0")
        turn = run_turn(opened, self.entry, kv=self.kv, new_guid=lambda: f"guid-{next(self._guids)}")
        if not self._once:
            self._compare(item, turn)
        if opened.beginning is not None:
            self.history, self.execution_id = [], opened.ledger.execution_id
        self.history += turn.commit.history_delta
        cancelled = {each.activity_id for each in turn.commit.cancelled_activities}
        self.tasks = [each for each in [*self.tasks, *turn.commit.worker_items] if each.activity_id not in cancelled]
        self.sent += turn.commit.orchestrator_items
        self.turns.append(turn)
        return turn

    def _compare(self, item: OrchestrationItem, replayed: Turn) -> None:
        """A machine kept from the turn before does the same as one made from the whole history."""
        if self._kept_entry is not self.entry:
            self._memory, self._kept_entry = None, self.entry
        seen = 0 if self._memory is None else self._memory.last_event_id
        rest = msgspec.structs.replace(item, history=item.history[seen:], last_event_id=len(item.history))
        opened = open_batch(rest, now_ms=self.now_ms, runtime_version="1.0.0", memory=self._memory)
        assert opened is not None
        admit(opened, "1.0.0")
        guid = lambda: f"guid-{next(self._kept_guids)}"  # noqa: E731
        turn = run_turn(opened, self.entry, kv=self.kv, new_guid=guid, keep=True)
        assert (turn.commit, type(turn.outcome)) == (replayed.commit, type(replayed.outcome))
        self._memory = opened.memory if opened.memory.machine is not None else None

    def done(self, activity_id: int, result: str = "null", execution_id: int | None = None) -> OrchestratorMessage:
        """The completion of an activity."""
        return messages.ActivityCompletedMessage(
            instance=self.instance,
            execution_id=execution_id or self.execution_id,
            activity_id=activity_id,
            result=result,
        )

    def broken(self, activity_id: int, details: Failure | str = "boom") -> OrchestratorMessage:
        """The failure of an activity."""
        found = ApplicationFailure(message=details) if isinstance(details, str) else details
        return messages.ActivityFailedMessage(
            instance=self.instance, execution_id=self.execution_id, activity_id=activity_id, details=found
        )

    def fired(self, timer_id: int) -> OrchestratorMessage:
        """A timer that is due."""
        return messages.TimerFiredMessage(
            instance=self.instance, execution_id=self.execution_id, timer_id=timer_id, fire_at_ms=self.now_ms
        )

    def child_done(self, event_id: int, result: str = "null") -> OrchestratorMessage:
        """The completion of a child."""
        return messages.SubOrchestrationCompletedMessage(
            instance=self.instance, execution_id=self.execution_id, parent_event_id=event_id, result=result
        )

    def raised(self, name: str, data: str = "null") -> OrchestratorMessage:
        """An external event."""
        return messages.ExternalRaisedMessage(instance=self.instance, name=name, data=data)

    def queued(self, name: str, data: str = "null") -> OrchestratorMessage:
        """A message for one of the instance's queues."""
        return messages.QueueMessage(instance=self.instance, name=name, data=data)

    def cancel(self, reason: str = "because") -> OrchestratorMessage:
        """A cancellation."""
        return messages.CancelMessage(instance=self.instance, reason=reason)

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [type(each).__name__ for each in self.history]

    @property
    def output(self) -> str:
        """The output of a completed instance."""
        outcome = self.turns[-1].outcome
        assert isinstance(outcome, Completed), outcome
        return outcome.output

    @property
    def error(self) -> str:
        """The error of a failed instance, or why it is parked, as people see it."""
        outcome = self.turns[-1].outcome
        if isinstance(outcome, Parked):
            return f"nondeterministic: {outcome.reason}"
        assert isinstance(outcome, Failed), outcome
        return outcome.details.display()


def play(code: Orchestrator, answers: Mapping[str, Sequence[str]] | None = None, *, turns: int = 50) -> Stage:
    """Run to the end, or until `turns` are over: activities answer their input, timers fire, children answer "kid".

    `answers` names messages by kind, `event` and `queue`, that are sent when nothing else is left to do.
    """
    stage = Stage(code)
    stage.start("1")
    return go_on(stage, answers, turns=turns)


def go_on(stage: Stage, answers: Mapping[str, Sequence[str]] | None = None, *, turns: int = 50) -> Stage:
    """Run an instance that has begun, as `play` does."""
    extra = [stage.raised(name, '"e"') for name in (answers or {}).get("event", ())]
    extra += [stage.queued(name, '"q"') for name in (answers or {}).get("queue", ())]
    while len(stage.turns) < turns and stage.turns[-1].outcome is None:
        waiting = [stage.done(each.activity_id, each.input) for each in stage.tasks]
        stage.tasks.clear()
        waiting += [each for each in stage.sent if isinstance(each, messages.TimerFiredMessage)]
        starts = [each for each in stage.sent if isinstance(each, messages.StartMessage) and each.parent_event_id]
        waiting += [stage.child_done(each.parent_event_id or 0, '"kid"') for each in starts]
        stage.sent.clear()
        if not waiting and extra:
            waiting = [extra.pop(0)]
        if not waiting:
            break
        stage.feed(waiting[0])
        for each in waiting[1:]:
            if stage.turns[-1].outcome is None:
                stage.feed(each)
    return stage


def ids(history: Sequence[HistoryEvent]) -> list[int]:
    """The event ids of a history."""
    return [each.event_id for each in history]


def sources(history: Sequence[HistoryEvent], kind: type[events.Event]) -> list[int | None]:
    """What events of one kind point back to."""
    return [each.source_event_id for each in history if isinstance(each, kind)]
