"""Histories no code could have written."""

from __future__ import annotations

from typing import Any

import pytest

from queen.durable import events
from queen.durable.duroxide.generators import generator_entry
from queen.durable.errors import NondeterminismDetected
from queen.durable.events import ApplicationFailure, HistoryEvent
from queen.durable.replay.check import check_replay


def code(ctx: Any, _: Any) -> Any:
    yield ctx.schedule_activity("a", 1)
    yield ctx.schedule_timer(5)
    return "end"


def stamp(event_id: int, source: int | None = None) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "instance": "i",
        "execution_id": 1,
        "timestamp_ms": event_id,
        "version": "1.0.0",
        "source_event_id": source,
    }


def started(event_id: int = 1) -> HistoryEvent:
    return events.OrchestrationStarted(**stamp(event_id), name="o", orchestration_version="1.0.0", input="1")


def scheduled(event_id: int = 2) -> HistoryEvent:
    return events.ActivityScheduled(**stamp(event_id), name="a", input="1")


def completed(event_id: int, source: int) -> HistoryEvent:
    return events.ActivityCompleted(**stamp(event_id, source), result="1")


FAILED = ApplicationFailure(message="x")
CASES: dict[str, tuple[list[HistoryEvent], str]] = {
    "empty": ([], "corrupted history: it is empty"),
    "no start": ([scheduled(1)], "corrupted history: the first event is not OrchestrationStarted"),
    "begins with an arrival": ([completed(1, 2)], "corrupted history: the first event is not OrchestrationStarted"),
    "two starts": ([started(), started(2)], "at event 2 history starts a second time"),
    "completion without a schedule": ([started(), scheduled(), completed(3, 9)], "event 9 does not schedule anything"),
    "completion of itself": ([started(), scheduled(), completed(3, 3)], "event 3 does not schedule anything"),
    "completed twice": ([started(), scheduled(), completed(3, 2), completed(4, 2)], "event 2 was already completed"),
    "completed, then failed": (
        [started(), scheduled(), completed(3, 2), events.ActivityFailed(**stamp(4, 2), details=FAILED)],
        "event 2 was already completed",
    ),
    "a timer firing for an activity": (
        [started(), scheduled(), events.TimerFired(**stamp(3, 2), fire_at_ms=1)],
        r"history has TimerFired, but event 2 is ActivityScheduled\(name=a, input=1\)",
    ),
    "a child completing for an activity": (
        [started(), scheduled(), events.SubOrchestrationCompleted(**stamp(3, 2), result="1")],
        "history has SubOrchestrationCompleted, but event 2 is ActivityScheduled",
    ),
    "an activity completing for a timer": (
        [
            started(),
            scheduled(),
            completed(3, 2),
            events.TimerCreated(**stamp(4), fire_at_ms=1),
            completed(5, 4),
        ],
        "history has ActivityCompleted, but event 4 is TimerCreated",
    ),
    "a cancellation the code does not make": (
        [started(), scheduled(), events.ActivityCancelRequested(**stamp(3, 2), reason="dropped_future")],
        r"at event 3 history has ActivityCancelRequested\(of_event=2\), but the code asked for nothing",
    ),
    "more schedules than the code makes": (
        [started(), scheduled(), scheduled(3)],
        "at event 3 history has ActivityScheduled.*, but the code asked for nothing",
    ),
    "a schedule after the end of the code": (
        [
            started(),
            scheduled(),
            completed(3, 2),
            events.TimerCreated(**stamp(4), fire_at_ms=1),
            events.TimerFired(**stamp(5, 4), fire_at_ms=1),
            scheduled(6),
        ],
        "at event 6 history has ActivityScheduled.*, but the code had already finished",
    ),
    "an end the code does not reach": (
        [started(), scheduled(), events.OrchestrationCompleted(**stamp(3), output="1")],
        "at event 3 history has OrchestrationCompleted, but the code is still waiting",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_corruption_is_named(case: str) -> None:
    history, text = CASES[case]
    with pytest.raises(NondeterminismDetected, match=text):
        check_replay(history, generator_entry(code))
