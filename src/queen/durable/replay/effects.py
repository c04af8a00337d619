"""What the new events of a turn set in motion: work, messages, cancellations, pushes."""

from __future__ import annotations

from collections.abc import Sequence

from queen.durable import events, messages
from queen.durable.codec import trace_uuid
from queen.durable.events import CarriedEvent, HistoryEvent
from queen.durable.messages import ActivityTask, OrchestratorMessage
from queen.durable.model import ActivityKey, QueuePush
from queen.durable.replay.arrivals import Batch
from queen.durable.replay.syscalls import ANSWERED_IN_TURN, TAKE_PLACE

PARENT_CANCELLED = "parent canceled"
PARENT_DROPPED = "parent dropped sub-orchestration future"


class Effects:
    """Collects effects event by event. Once an execution has ended, new work other than detached starts is void."""

    def __init__(self, batch: Batch, *, ended: bool, to_children: str = PARENT_CANCELLED) -> None:
        self.tasks: list[ActivityTask] = []
        self.messages: list[OrchestratorMessage] = []
        self.cancelled: list[ActivityKey] = []
        self.pushes: list[QueuePush] = []
        self._batch = batch
        self._ended = ended
        self._to_children = to_children
        self._started = batch.started
        self._children = batch.memory.children
        self._new_children: set[int] = set()

    def resume(self, restored: Sequence[HistoryEvent]) -> None:
        """Ask again for what a restored history still waits for, and for a place of its own."""
        if not self._ended:
            answered = {each.source_event_id for each in restored}
            for event in restored:
                takes_place = isinstance(event, events.ActivityScheduled) and event.name == TAKE_PLACE
                if event.event_id not in answered or takes_place:
                    self._schedule(event)

    @property
    def _trace_id(self) -> str | None:
        return self._started.trace_id if self._started is not None else None

    def add(self, event: HistoryEvent) -> None:
        """Take in one new event."""
        match event:
            case events.OrchestrationChained():
                self.messages.append(self._start_detached(event))
            case events.MessageSent():
                self.messages.append(messages.QueueMessage(instance=event.target, name=event.queue, data=event.data))
            case events.MessagePushed():
                self.pushes.append(self._push(event))
            case events.ActivityCancelRequested():
                self._cancel_activity(event)
            case events.SubOrchestrationCancelRequested():
                self._cancel_child(event)
            case _ if not self._ended:
                self._schedule(event)

    def withdraw(self, timers: Sequence[int]) -> None:
        """Timers nobody waits for any more need not be sent."""
        self.messages = [
            each
            for each in self.messages
            if not (isinstance(each, messages.TimerFiredMessage) and each.timer_id in timers)
        ]

    def end(
        self, terminal: HistoryEvent, version: str | None, carried: Sequence[CarriedEvent], status: str | None
    ) -> None:
        """Begin the next execution, or tell the parent."""
        started = self._started
        if started is None:
            return
        if isinstance(terminal, events.OrchestrationContinuedAsNew):
            self.messages.append(
                messages.ContinueAsNewMessage(
                    instance=terminal.instance,
                    name=started.name,
                    input=terminal.input,
                    execution_id=terminal.execution_id + 1,
                    version=version,
                    parent_instance=started.parent_instance,
                    parent_execution_id=started.parent_execution_id,
                    parent_event_id=started.parent_event_id,
                    carried_events=tuple(carried),
                    custom_status=status,
                    trace_id=started.trace_id,
                )
            )
        elif started.parent_instance is not None:
            self._tell_parent(started.parent_instance, started, terminal)

    def _tell_parent(self, parent: str, started: events.OrchestrationStarted, terminal: HistoryEvent) -> None:
        execution_id, event_id = started.parent_execution_id or 1, started.parent_event_id or 0
        if isinstance(terminal, events.OrchestrationCompleted):
            self.messages.append(
                messages.SubOrchestrationCompletedMessage(
                    instance=parent, execution_id=execution_id, parent_event_id=event_id, result=terminal.output
                )
            )
        elif isinstance(terminal, events.OrchestrationFailed):
            self.messages.append(
                messages.SubOrchestrationFailedMessage(
                    instance=parent, execution_id=execution_id, parent_event_id=event_id, details=terminal.details
                )
            )

    def _schedule(self, event: HistoryEvent) -> None:
        match event:
            case events.ActivityScheduled() if event.name not in ANSWERED_IN_TURN:
                self.tasks.append(self._task(event))
            case events.TimerCreated():
                self.messages.append(
                    messages.TimerFiredMessage(
                        instance=event.instance,
                        execution_id=event.execution_id,
                        timer_id=event.event_id,
                        fire_at_ms=event.fire_at_ms,
                    )
                )
            case events.SubOrchestrationScheduled():
                self._new_children.add(event.event_id)
                self.messages.append(self._start_child(event))
            case _:
                return

    def _task(self, event: events.ActivityScheduled) -> ActivityTask:
        started = self._started
        return ActivityTask(
            instance=event.instance,
            execution_id=event.execution_id,
            activity_id=event.event_id,
            name=event.name,
            input=event.input,
            session_id=event.session_id,
            tag=event.tag,
            priority=event.priority,
            orchestration_name=self._batch.name,
            orchestration_version=started.orchestration_version if started else "",
            trace_id=self._trace_id,
            progress=event.progress,
            first_id=event.first_id,
            seed=started.seed_at(event.first_id or event.event_id) if started else None,
            place=event.place,
        )

    def _start_child(self, event: events.SubOrchestrationScheduled) -> OrchestratorMessage:
        self._children[event.event_id] = event.child_instance
        return messages.StartMessage(
            instance=event.child_instance,
            name=event.name,
            input=event.input,
            version=event.orchestration_version,
            parent_instance=event.instance,
            parent_execution_id=event.execution_id,
            parent_event_id=event.event_id,
            trace_id=self._trace_id,
        )

    def _start_detached(self, event: events.OrchestrationChained) -> OrchestratorMessage:
        return messages.StartMessage(
            instance=event.chained_instance,
            name=event.name,
            input=event.input,
            version=event.orchestration_version,
            trace_id=self._trace_id,
        )

    def _push(self, event: events.MessagePushed) -> QueuePush:
        return QueuePush(
            queue=event.queue,
            partition=event.partition,
            payload=event.payload,
            transaction_id=event.transaction_id,
            trace_id=trace_uuid(self._trace_id),
        )

    def _cancel_activity(self, event: events.ActivityCancelRequested) -> None:
        source = event.source_event_id or 0
        self.tasks = [task for task in self.tasks if task.activity_id != source]
        self.cancelled.append(ActivityKey(event.instance, event.execution_id, source))

    def _cancel_child(self, event: events.SubOrchestrationCancelRequested) -> None:
        source = event.source_event_id or 0
        child = self._children.get(source)
        if child is None:
            return
        if source in self._new_children:
            self.messages = [each for each in self.messages if not _starts(each, source)]
            return
        reason = PARENT_DROPPED if event.reason == "dropped_future" else self._to_children
        self.messages.append(messages.CancelMessage(instance=child, reason=reason))


def _starts(message: OrchestratorMessage, parent_event_id: int) -> bool:
    return isinstance(message, messages.StartMessage) and message.parent_event_id == parent_event_id
