"""One trace in plain Python: which message follows from which, how long each took, and which decided the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class Handling:
    """What one group did with a message. Times are microseconds."""

    group: str
    leased: int | None
    finished: int | None


@dataclass(slots=True)
class Span:
    """One message of a trace."""

    id: str
    parent_id: str | None
    queue: str
    created: int
    handled: Sequence[Handling] = ()
    children: list[Span] = field(default_factory=list)
    parent: Span | None = None
    by: Handling | None = None

    def measured(self) -> Handling:
        """The group by which it is measured, once all children are known."""
        if self.by is None:
            self.by = choose(self.handled, min((child.created for child in self.children), default=None))
        return self.by

    @property
    def end(self) -> int:
        """When it was finished; when it was stored, if it was not."""
        return self.measured().finished or self.created

    @property
    def place(self) -> str:
        """The queues that led to it."""
        names: list[str] = []
        span: Span | None = self
        while span is not None:
            names.append(span.queue)
            span = span.parent
        return " > ".join(reversed(names))

    def facts(self) -> dict[str, Any]:
        """Its queue, and how long it waited and was worked on."""
        by = self.measured()
        wait = None if by.leased is None else (by.leased - self.created) / MILLISECOND
        work = None if by.leased is None or by.finished is None else (by.finished - by.leased) / MILLISECOND
        return {"id": self.id, "queue": self.queue, "group": by.group, "wait_ms": wait, "work_ms": work}


def choose(handled: Sequence[Handling], pushed: int | None) -> Handling:
    """The group that was at work when the next message was pushed; when none was, the one that finished first."""
    if pushed is not None:
        for one in sorted(handled, key=lambda one: (one.leased or 0, one.group)):
            if one.leased is not None and one.leased <= pushed <= (one.finished or pushed):
                return one
    done = [one for one in handled if one.finished is not None]
    return min(done, key=lambda one: (one.finished or 0, one.group), default=Handling("", None, None))


def explain(trace_id: str, spans: Sequence[Span], absent: Iterable[str]) -> dict[str, Any]:
    """What there is to know about a trace. `absent`: parents that no message anywhere has."""
    roots = link(spans)
    reached = [span for root in roots for span in below(root)]
    leaves = [span for span in reached if not span.children]
    last = max(leaves, key=lambda span: (span.end, span.id), default=None)
    path = [*upward(last)][::-1] if last is not None else []
    critical = {span.id for span in path}
    missing = sorted(absent)
    return {
        "trace_id": trace_id,
        "spans": len(spans),
        "hops": max((sum(1 for _ in upward(leaf)) for leaf in leaves), default=0),
        "started": min(span.created for span in spans),
        "total_ms": (last.end - path[0].created) / MILLISECOND if last is not None else 0.0,
        "shape": " + ".join(sorted(shape(root) for root in roots)),
        "broken": bool(missing) or len(reached) < len(spans),
        "missing": missing,
        "path": [span.facts() for span in path],
        "edges": [edge(span, critical) for span in reached if span.parent is not None],
        "nodes": [{**span.facts(), "place": span.place} for span in reached],
    }


def link(spans: Sequence[Span]) -> list[Span]:
    """Tie children to their parents; returns those without one."""
    known = {span.id: span for span in spans}
    roots: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.created, span.id)):
        parent = known.get(span.parent_id) if span.parent_id is not None else None
        if parent is None:
            roots.append(span)
        else:
            span.parent = parent
            parent.children.append(span)
    return roots


def below(root: Span) -> Iterator[Span]:
    """A message and all that follows from it."""
    waiting = [root]
    while waiting:
        span = waiting.pop()
        yield span
        waiting += span.children


def upward(span: Span | None) -> Iterator[Span]:
    """A message and what it follows from, up to the first."""
    while span is not None:
        yield span
        span = span.parent


def shape(root: Span) -> str:
    """The queues as a tree: `orders(payments(shipping, mail x2))`."""
    texts: dict[str, str] = {}
    for span in reversed([*below(root)]):
        counts: dict[str, int] = defaultdict(int)
        for child in span.children:
            counts[texts[child.id]] += 1
        inner = ", ".join(text if count == 1 else f"{text} x{count}" for text, count in sorted(counts.items()))
        texts[span.id] = f"{span.queue}({inner})" if inner else span.queue
    return texts[root.id]


def edge(span: Span, critical: set[str]) -> dict[str, Any]:
    """From a message to one that follows: the time between them, and whether it decided the end."""
    assert span.parent is not None
    return {
        "source": span.parent.queue,
        "target": span.queue,
        "latency_ms": (span.created - span.parent.created) / MILLISECOND,
        "critical": span.id in critical,
    }
