"""A new execution from the history of an earlier one: which events it keeps, and what it runs again.

The events before the cut are kept as they are, with their ids. Of those after it, only what came from outside is
kept: answers to requests before the cut, events and messages. Everything the code asked for from the cut on, and
every answer to it, is left to today's code.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from queen.durable import events
from queen.durable.errors import StepNotFound
from queen.durable.events import HistoryEvent
from queen.durable.messages import Restored
from queen.durable.replay.action import describe_event
from queen.durable.replay.arrivals import Completion, Terminal
from queen.durable.replay.machine import TERMINAL_REASON
from queen.durable.replay.syscalls import ANSWERED_IN_TURN

FIRST_STEP = 2

_Answers = Completion
_Failures = events.ActivityFailed | events.SubOrchestrationFailed
_FromOutside = events.ExternalEvent | events.QueueEventDelivered
_NotAsked = (
    Terminal
    | Completion
    | _FromOutside
    | events.OrchestrationStarted
    | events.OrchestrationCancelRequested
    | events.OrchestrationParked
)


def restore(
    history: Sequence[HistoryEvent],
    *,
    keys: Sequence[tuple[str, str, int]],
    from_step: int | None = None,
    suffix: str,
) -> Restored:
    """What the next execution begins with. Without `from_step` only what failed last is run again.

    Children without an answer are started again under their id with `suffix`.
    """
    started = history[0]
    if not isinstance(started, events.OrchestrationStarted):
        raise StepNotFound("the history does not begin with a start: there is nothing to go on from")
    cut = _before_the_failure(history) if from_step is None else _checked(history, from_step)
    kept = [each for each in history if each.event_id < cut]
    for event in history[len(kept) :]:
        if _stays(event, cut, retrying=from_step is None):
            kept.append(_moved(event, len(kept) + 1))
    answered = {each.source_event_id for each in kept if each.source_event_id is not None}
    return Restored(
        history=tuple(_renamed(each, answered, suffix) for each in kept),
        earlier_seeds=(
            *((last, seed) for last, seed in started.earlier_seeds if last < cut - 1),
            (cut - 1, started.seed_at(cut - 1)),
        ),
        keys=tuple(keys),
    )


def stamped(event: HistoryEvent, instance: str, execution_id: int) -> HistoryEvent:
    """A kept event as one of another execution."""
    return msgspec.structs.replace(event, instance=instance, execution_id=execution_id)


def _moved(event: HistoryEvent, event_id: int) -> HistoryEvent:
    if isinstance(event, events.ExternalEvent):
        return msgspec.structs.replace(event, event_id=event_id, kept=True)
    return msgspec.structs.replace(event, event_id=event_id)


def _stays(event: HistoryEvent, cut: int, *, retrying: bool) -> bool:
    if isinstance(event, _FromOutside):
        return True
    if retrying and isinstance(event, _Failures):
        return False
    return isinstance(event, _Answers) and (event.source_event_id or 0) < cut


def _before_the_failure(history: Sequence[HistoryEvent]) -> int:
    """Where to cut so that what failed last is tried again, or else only the last turn.

    A turn is what arrived, then what the code asked for. When a failure was among what the last one brought, all that
    the code asked for in answer to it goes too; a cancellation ends what counts.
    """
    answered_in_turn = {
        each.event_id
        for each in history
        if isinstance(each, events.ActivityScheduled) and each.name in ANSWERED_IN_TURN
    }
    last_request, arrived, failed = 1, 1, False
    for event in history:
        if isinstance(event, events.OrchestrationCancelRequested):
            return event.event_id
        if isinstance(event, _FromOutside | Completion) and event.source_event_id not in answered_in_turn:
            if arrived < last_request:
                arrived, failed = last_request, False
            failed = failed or isinstance(event, _Failures)
        elif not isinstance(event, _NotAsked) and not getattr(event, "reason", "").startswith(TERMINAL_REASON):
            last_request = event.event_id
    return (arrived if failed else last_request) + 1


def _checked(history: Sequence[HistoryEvent], step: int) -> int:
    if step == FIRST_STEP:
        return step
    steps = {each.event_id: each for each in history if not isinstance(each, _NotAsked)}
    if step not in steps:
        shown = ", ".join(f"{number} {describe_event(each)}" for number, each in list(steps.items())[-10:])
        raise StepNotFound(f"there is no step {step}; the last ones are: {shown or 'none'}")
    return step


def _renamed(event: HistoryEvent, answered: set[int], suffix: str) -> HistoryEvent:
    if isinstance(event, events.SubOrchestrationScheduled) and event.event_id not in answered:
        return msgspec.structs.replace(event, child_instance=f"{event.child_instance}{suffix}")
    return event
