"""A history as spans of time: what each step was, when it began, when and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from queen.durable import events
from queen.durable.events import HistoryEvent

Outcome = Literal["open", "done", "failed", "dropped"]


class Span(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step. `ended_ms` is None while it is open; a mark has no length."""

    event_id: int
    kind: Literal["activity", "timer", "child", "wait", "mark"]
    label: str
    started_ms: int
    ended_ms: int | None
    outcome: Outcome
    detail: str | None = None


def spans(history: Sequence[HistoryEvent]) -> list[Span]:
    """The steps of an execution in the order they were asked for."""
    ends = {each.source_event_id: each for each in history if each.source_event_id is not None}
    waits = _deliveries(history)
    return [span for event in history if (span := _span(event, ends.get(event.event_id) or waits.get(event.event_id)))]


def _span(event: HistoryEvent, end: HistoryEvent | None) -> Span | None:
    named = _named(event)
    if named is None:
        return None
    kind, label = named
    outcome, detail = _outcome(end)
    is_mark = kind == "mark"
    return Span(
        event_id=event.event_id,
        kind=kind,
        label=label,
        started_ms=event.timestamp_ms,
        ended_ms=event.timestamp_ms if is_mark else (end.timestamp_ms if end is not None else None),
        outcome="done" if is_mark else outcome,
        detail=detail,
    )


_Named = tuple[Literal["activity", "timer", "child", "wait", "mark"], str]


def _named(event: HistoryEvent) -> _Named | None:
    match event:
        case events.ActivityScheduled():
            return "activity", event.name
        case events.TimerCreated():
            return "timer", f"{(event.fire_at_ms - event.timestamp_ms) / 1000:g} s"
        case events.SubOrchestrationScheduled():
            return "child", f"{event.name} ({event.child_instance})"
        case events.ExternalSubscribed():
            return "wait", f"event {event.name}"
        case events.QueueSubscribed():
            return "wait", f"queue {event.name}"
        case _:
            return _mark(event)


def _mark(event: HistoryEvent) -> _Named | None:
    match event:
        case events.OrchestrationChained():
            return "mark", f"started {event.name} ({event.chained_instance})"
        case events.OrchestrationParked():
            return "mark", f"parked: {event.reason}"
        case events.PatchMarked():
            return "mark", f"patched {event.name}"
        case events.MessageSent():
            return "mark", f"sent to {event.queue} of {event.target}"
        case events.MessagePushed():
            return "mark", f"pushed to {event.queue}/{event.partition}"
        case events.OrchestrationCancelRequested():
            return "mark", f"cancelled: {event.reason}"
        case events.CustomStatusUpdated():
            return "mark", f"status {event.value or 'cleared'}"
        case _:
            return None


def _outcome(end: HistoryEvent | None) -> tuple[Outcome, str | None]:
    match end:
        case None:
            return "open", None
        case events.ActivityFailed() | events.SubOrchestrationFailed():
            return "failed", end.details.display()
        case (
            events.ActivityCancelRequested()
            | events.SubOrchestrationCancelRequested()
            | events.ExternalSubscribedCancelled()
            | events.QueueSubscriptionCancelled()
        ):
            return "dropped", end.reason
        case _:
            return "done", None


def _deliveries(history: Sequence[HistoryEvent]) -> dict[int, HistoryEvent]:
    """Which wait took which event: the nth live wait of a name takes the nth event."""
    open_waits: dict[tuple[str, str], list[HistoryEvent]] = {}
    kept: dict[str, list[HistoryEvent]] = {}
    dropped = {
        each.source_event_id
        for each in history
        if isinstance(each, events.ExternalSubscribedCancelled | events.QueueSubscriptionCancelled)
    }
    found: dict[int, HistoryEvent] = {}
    for event in history:
        match event:
            case events.ExternalSubscribed() if event.event_id not in dropped:
                open_waits.setdefault(("event", event.name), []).append(event)
            case events.QueueSubscribed() if event.event_id not in dropped:
                if kept.get(event.name):
                    found[event.event_id] = kept[event.name].pop(0)
                else:
                    open_waits.setdefault(("queue", event.name), []).append(event)
            case events.ExternalEvent():
                if waiting := open_waits.get(("event", event.name)):
                    found[waiting.pop(0).event_id] = event
            case events.QueueEventDelivered():
                if waiting := open_waits.get(("queue", event.name)):
                    found[waiting.pop(0).event_id] = event
                else:
                    kept.setdefault(event.name, []).append(event)
            case _:
                continue
    return found


def draw(steps: Sequence[Span], *, width: int = 48, now_ms: int | None = None) -> list[str]:
    """One line per step: a bar on a common scale, its length, its name and how it ended."""
    if not steps:
        return []
    first = min(each.started_ms for each in steps)
    last = max([each.ended_ms or each.started_ms for each in steps] + ([now_ms] if now_ms else []))
    scale = width / max(last - first, 1)
    return [_line(each, first, last, scale, width) for each in steps]


_GLYPHS = {"open": "░", "done": "█", "failed": "▓", "dropped": "▒"}
_SIGNS = {"open": "…", "done": "✓", "failed": "✗", "dropped": "⊘"}


def _line(span: Span, first: int, last: int, scale: float, width: int) -> str:
    begin = min(int((span.started_ms - first) * scale), width - 1)
    end = span.ended_ms if span.ended_ms is not None else last
    length = max(1, round((end - span.started_ms) * scale))
    bar = (" " * begin + _GLYPHS[span.outcome] * length)[:width].ljust(width)
    took = "" if span.kind == "mark" else f"{end - span.started_ms} ms"
    detail = f" - {span.detail}" if span.detail else ""
    return f"{span.event_id:>5} |{bar}| {took:>10} {_SIGNS[span.outcome]} {span.kind} {span.label}{detail}"
