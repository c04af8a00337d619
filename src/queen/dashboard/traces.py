"""Traces: the messages of one trace across queues as a waterfall, with wait and work per hop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from queen import errors
from queen.dashboard import charts
from queen.dashboard.frame import Visit, page
from queen.dashboard.messages import browser
from queen.dashboard.queues import host_of
from queen.dashboard.words import fine_span
from queen.engine.browse import Filter
from queen.engine.reading import Window
from queen.engine.traces import TracedMessage, TraceName, Traces
from queen.server.wire import Wire

NAMES: Final = 50
RECENT: Final = 100
SHOWN: Final = 300


class RecentTrace(Wire, kw_only=True):
    """A trace that was seen lately."""

    id: UUID
    queues: list[str]
    messages: int
    last_at: datetime


class NamedRow(Wire, kw_only=True):
    """A name under which events were noted."""

    name: str
    events: int
    messages: int
    last_at: datetime


class TraceList(Wire, kw_only=True):
    """Traces seen lately, and the names of events."""

    recent: list[RecentTrace]
    names: list[NamedRow]
    host: str


class Stretch(Wire, kw_only=True):
    """A part of a hop in the picture: where it begins and how wide it is, of 1000."""

    x: float
    width: float
    kind: str
    words: str


class Hop(Wire, kw_only=True):
    """One message of the trace."""

    queue: str
    partition: str
    partition_id: int
    seq: int
    transaction_id: str
    created_at: datetime
    depth: int
    wait_seconds: float
    work_seconds: float
    tries: int
    state: str
    critical: bool
    stretches: list[Stretch]
    x: float
    width: float


class Trace(Wire, kw_only=True):
    """One trace."""

    id: UUID
    hops: list[Hop]
    total_seconds: float
    wait_seconds: float
    work_seconds: float
    critical: list[str]
    axis: list[tuple[float, str]]
    cut: bool


class TraceNotFound(errors.RequestError):
    """There is no message of that trace."""

    code = "TRACE_NOT_FOUND"
    status = 404


def _traces(visit: Visit) -> Traces:
    return Traces(visit.request.engine.database, visit.request.engine.keys)


@page("traces.html", "Traces", wide=True)
async def traces(visit: Visit) -> TraceList:
    """Traces seen lately."""
    since = datetime.now(UTC) - timedelta(days=1)
    found, _ = await browser(visit).browse(Filter(since=since), Window(limit=RECENT))
    recent: dict[UUID, RecentTrace] = {}
    for each in found.items:
        if each.trace_id is None:
            continue
        known = recent.setdefault(
            each.trace_id, RecentTrace(id=each.trace_id, queues=[], messages=0, last_at=each.created_at)
        )
        known.messages += 1
        if each.queue not in known.queues:
            known.queues.insert(0, each.queue)  # the newest come first, and the list says where they went
    rows = await visit.looker.cached(("trace_names",), "trace_names", NAMES)
    names = [TraceName(**{field: row[field] for field in TraceName.__struct_fields__}) for row in rows]
    return TraceList(
        recent=list(recent.values())[:NAMES],
        names=[NamedRow(name=n.name, events=n.traces, messages=n.messages, last_at=n.last_seen) for n in names],
        host=host_of(visit),
    )


@page("trace.html", "Traces", wide=True)
async def trace(visit: Visit) -> Trace:
    """One trace as a waterfall."""
    try:
        number = UUID(visit.need("id"))
    except ValueError:
        raise errors.InvalidRequest("id", "id must be the UUID of a trace") from None
    messages = await _traces(visit).by_id(number, SHOWN + 1)
    if not messages:
        raise TraceNotFound("no message of this trace is kept any more")
    return _trace(number, messages[:SHOWN], charts.now_of(visit.look.now), cut=len(messages) > SHOWN)


def _trace(number: UUID, messages: list[TracedMessage], now: datetime, *, cut: bool) -> Trace:
    start = min(each.created_at for each in messages)
    ends = {each.id: _end(each, now) for each in messages}
    total = max((max(ends.values()) - start).total_seconds(), 0.001)
    by_id = {each.id: each for each in messages}
    critical = _critical(by_id, ends)
    waited = _waited(sorted((by_id[each] for each in critical), key=lambda each: each.created_at), ends)
    hops = [_hop(each, start, total, now, _depth(each, by_id), critical=each.id in critical) for each in messages]
    return Trace(
        id=number,
        hops=hops,
        total_seconds=total,
        wait_seconds=waited,
        work_seconds=total - waited,
        critical=[hop.queue for hop in hops if hop.critical],
        axis=[(place * 1000, fine_span(total * place)) for place in (0.0, 0.25, 0.5, 0.75, 1.0)],
        cut=cut,
    )


def _end(message: TracedMessage, now: datetime) -> datetime:
    return max((each.ended_at or now for each in message.deliveries), default=message.created_at)


def _critical(by_id: dict[UUID, TracedMessage], ends: dict[UUID, datetime]) -> set[UUID]:
    """The chain of messages that ends last: without it the trace would have been shorter."""
    at: UUID | None = max(ends, key=lambda each: ends[each])
    chain: set[UUID] = set()
    while at is not None and at in by_id and at not in chain:
        chain.add(at)
        at = by_id[at].parent_id
    return chain


def _waited(chain: list[TracedMessage], ends: dict[UUID, datetime]) -> float:
    """How long nobody worked on the critical path: a message of it counts until it has made the next one."""
    waited = 0.0
    for message, following in zip(chain, [*chain[1:], None], strict=True):
        until = ends[message.id] if following is None else following.created_at
        at = message.created_at
        for each in sorted(message.deliveries, key=lambda delivery: delivery.leased_at):
            waited += max((min(each.leased_at, until) - at).total_seconds(), 0.0)
            at = max(at, min(each.ended_at or until, until))
        waited += max((until - at).total_seconds(), 0.0)
    return waited


def _depth(message: TracedMessage, by_id: dict[UUID, TracedMessage]) -> int:
    depth, at, met = 0, message.parent_id, {message.id}
    while at is not None and at in by_id and at not in met:
        met.add(at)
        depth, at = depth + 1, by_id[at].parent_id
    return min(depth, 8)


def _hop(message: TracedMessage, start: datetime, total: float, now: datetime, depth: int, *, critical: bool) -> Hop:
    at, wait, work, stretches = message.created_at, 0.0, 0.0, []
    for each in sorted(message.deliveries, key=lambda delivery: delivery.leased_at):
        end = each.ended_at or now
        if each.leased_at > at:
            wait += (each.leased_at - at).total_seconds()
            stretches.append(_stretch(start, total, at, each.leased_at, "wait"))
        kind = "failed" if each.outcome in ("failed", "retried", "expired") else "work"
        work += max((end - max(at, each.leased_at)).total_seconds(), 0.0)
        stretches.append(_stretch(start, total, each.leased_at, end, kind))
        at = max(at, end)
    state = message.deliveries[-1].outcome if message.deliveries else "waiting"
    stretches = stretches or [_stretch(start, total, message.created_at, max(now, message.created_at), "wait")]
    return Hop(
        depth=depth,
        wait_seconds=wait,
        work_seconds=work,
        tries=len(message.deliveries),
        state=state,
        critical=critical,
        stretches=stretches,
        x=stretches[0].x,
        width=round(max(each.x + each.width for each in stretches) - stretches[0].x, 1),
        **{
            name: getattr(message, name)
            for name in ("queue", "partition", "partition_id", "seq", "transaction_id", "created_at")
        },
    )


def _stretch(start: datetime, total: float, begin: datetime, end: datetime, kind: str) -> Stretch:
    seconds = max((end - begin).total_seconds(), 0.0)
    x = min(max((begin - start).total_seconds() / total, 0.0), 0.998) * 1000
    width = min(max(seconds / total * 1000, 2.0), 1000 - x)
    word = {"wait": "waited", "work": "worked on for", "failed": "failed after"}[kind]
    return Stretch(x=round(x, 1), width=round(width, 1), kind=kind, words=f"{word} {fine_span(seconds)}")
