"""Messages: find them by queue, partition, time, transaction, trace or payload; and the story of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from msgspec import Raw

from queen import errors
from queen.dashboard import charts
from queen.dashboard.acts import Done, Undo, act, ask
from queen.dashboard.frame import Visit, page
from queen.dashboard.queues import host_of
from queen.dashboard.words import fine_span, group_name, url
from queen.db.pool import Row
from queen.engine.browse import STATUSES, Browser, Delivery, Detail, Filter, Listed, Status, read_listed
from queen.engine.reading import Window
from queen.engine.traces import Trace, Traces
from queen.server.wire import Wire

PAGE: Final = 25
SEARCHED: Final = 2000
FOUND: Final = 100
SPANS: Final = {"1h": 1, "24h": 24, "7d": 168, "all": 24 * 36_500}


class MessageRow(Wire, kw_only=True):
    """A message in a list."""

    queue: str
    partition: str
    partition_id: int
    seq: int
    id: UUID
    transaction_id: str
    status: str
    trace_id: UUID | None
    producer: str | None
    created_at: datetime


class Messages(Wire, kw_only=True):
    """Messages that match."""

    messages: list[MessageRow]
    queue: str | None
    partition: str | None
    status: str | None
    since: str
    transaction: str | None
    trace: str | None
    match: str | None
    note: str | None
    queues: list[str]
    next_cursor: str | None
    host: str


class Step(Wire, kw_only=True):
    """One thing that happened to a message. `seconds` is how long it took, if it took time."""

    at: datetime
    what: str
    group: str | None = None
    seconds: float | None = None
    note: str | None = None
    kind: Literal["mark", "wait", "work", "done", "failed", "retry"] = "mark"


class Station(Wire, kw_only=True):
    """A stretch of the story as the picture draws it: where it begins and how wide it is, of 1000."""

    x: float
    width: float
    kind: str
    words: str


class Track(Wire, kw_only=True):
    """What one group did with the message."""

    group: str
    stations: list[Station]
    state: str


class DeadEntry(Wire, kw_only=True):
    """A dead letter of the message."""

    id: int
    consumer_group: str
    error_message: str
    failed_at: datetime
    retry_count: int
    redriven_at: datetime | None


class Message(Wire, kw_only=True):
    """One message and its story."""

    row: MessageRow
    payload: Raw
    text: str
    encrypted: bool
    broken: str | None
    parent_id: UUID | None
    tracks: list[Track]
    steps: list[Step]
    dead_letters: list[DeadEntry]
    total_seconds: float
    axis: list[tuple[float, str]]
    groups: list[str]


def browser(visit: Visit) -> Browser:
    """Looks at messages."""
    engine = visit.request.engine
    return Browser(engine.database, engine.keys, engine.wake)


@page("messages.html", "Messages")
async def messages(visit: Visit) -> Messages:
    """Messages, newest first."""
    status = _status(visit.text("status"))
    since = visit.text("since") or "24h"
    if since not in SPANS:
        raise errors.InvalidRequest("since", f"since must be one of {', '.join(SPANS)}")
    queue = visit.text("queue")
    if queue is None and visit.identity.queues is not None:
        rows: list[MessageRow] = []
        note: str | None = "Choose a queue: your token is for single queues."
        cursor: str | None = None
    else:
        if queue is not None and not visit.sees(queue):
            raise errors.QueueNotFound(f"there is no queue {queue!r}")
        rows, note, cursor = await _find(visit, queue, status, since)
    return Messages(
        messages=rows,
        queue=queue,
        partition=visit.text("partition"),
        status=status,
        since=since,
        transaction=visit.text("transaction"),
        trace=visit.text("trace"),
        match=visit.text("match"),
        note=note,
        queues=sorted(each.name for each in visit.look.queues.values() if visit.sees(each.name)),
        next_cursor=cursor,
        host=host_of(visit),
    )


def _status(given: str | None) -> Status | None:
    found = next((each for each in STATUSES if each == given), None)
    if given is not None and found is None:
        raise errors.InvalidRequest("status", f"status must be one of {', '.join(STATUSES)}")
    return found


Found = tuple[list[MessageRow], str | None, str | None]


async def _find(visit: Visit, queue: str | None, status: Status | None, since: str) -> Found:
    transaction, trace, match = visit.text("transaction"), visit.text("trace"), visit.text("match")
    partition = visit.text("partition")
    start = datetime.now(UTC) - timedelta(hours=SPANS[since])
    if transaction is not None:
        return await _by_transaction(visit, queue, transaction), None, None
    if trace is not None:
        places = await visit.looker.fetch("trace_places", _uuid("trace", trace), FOUND)
        return await _at(visit, places), None, None
    if match is not None:
        rows = await visit.looker.fetch(
            "match_messages", queue, partition, status, max(start, _FIRST), None, SEARCHED, match, FOUND
        )
        note = f"Searched the newest {SEARCHED} that match the other filters; sealed payloads cannot be searched."
        return [_row(read_listed(row)) for row in rows], note, None
    wanted = Filter(queue=queue, partition=partition, status=status, since=max(start, _FIRST))
    found, _ = await browser(visit).browse(wanted, Window(limit=PAGE, cursor=visit.text("cursor")))
    return [_row(each) for each in found.items], None, found.next_cursor


_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)


async def _by_transaction(visit: Visit, queue: str | None, transaction: str) -> list[MessageRow]:
    places = await visit.looker.fetch("find_by_transaction", queue, transaction, FOUND)
    if not places:
        try:
            number = UUID(transaction)
        except ValueError:
            return []
        places = await visit.looker.fetch("find_by_id", queue, number, _made_at(number))
    return await _at(visit, places)


def _made_at(number: UUID) -> datetime:
    """The time in an id of our making."""
    return datetime.fromtimestamp(min((number.int >> 80) / 1000, 4e9), UTC)


async def _at(visit: Visit, places: Sequence[Row]) -> list[MessageRow]:
    rows = await visit.looker.fetch(
        "messages_at", [row["partition_id"] for row in places], [row["seq"] for row in places]
    )
    return [_row(read_listed(row)) for row in rows if visit.sees(row["queue_name"])]


def _uuid(field: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise errors.InvalidRequest(field, f"{field} must be a UUID, not {text!r}") from None


def _row(found: Listed) -> MessageRow:
    return MessageRow(
        producer=found.producer_sub,
        **{
            name: getattr(found, name)
            for name in ("queue", "partition", "partition_id", "seq", "id", "transaction_id", "status", "trace_id",
                         "created_at")
        },
    )  # fmt: skip


async def known_message(visit: Visit) -> Detail:
    """The message a visit is about; raises MessageNotFound."""
    found = await browser(visit).message(visit.number("partition"), visit.need("transaction"))
    if found is None or not visit.sees(found.listed.queue):
        raise errors.MessageNotFound("there is no such message; retention may have removed it")
    return found


@page("message.html", "Messages")
async def message(visit: Visit) -> Message:
    """One message: its payload, and what happened to it."""
    found = await known_message(visit)
    one, engine = found.listed, visit.request.engine
    deliveries = await browser(visit).deliveries(one.partition_id, one.transaction_id) or []
    events = await Traces(engine.database, engine.keys).of_message(one.partition_id, one.transaction_id)
    dead = await visit.looker.fetch("dead_letters_of_message", one.partition_id, one.seq)
    steps = _steps(found, deliveries, events, dead)
    now = charts.now_of(visit.look.now)
    waiting = [group.name for group in found.groups if not group.consumed]
    ends = [step.at + timedelta(seconds=step.seconds or 0.0) for step in steps]
    end = max([*ends, now] if waiting else ends)
    total = max((end - one.created_at).total_seconds(), 0.001)
    return Message(
        row=_row(one),
        payload=Raw(found.payload.encode()),
        text=found.payload,
        encrypted=found.is_encrypted,
        broken=found.broken,
        parent_id=found.parent_id,
        tracks=_tracks(found, deliveries, end, total, {row["consumer_group"] for row in dead}),
        steps=steps,
        dead_letters=[DeadEntry(**{name: row[name] for name in DeadEntry.__struct_fields__}) for row in dead],
        total_seconds=total,
        axis=_axis(total),
        groups=[group.name for group in found.groups],
    )


_KINDS: Final = {"completed": "done", "failed": "failed", "retried": "retry", "partial": "retry", "expired": "retry"}
_SAID: Final = {
    "completed": "done",
    "partial": "done in part",
    "failed": "failed",
    "retried": "failed, to be tried again",
    "released": "handed back",
    "expired": "the lease ran out",
    "moved": "passed by a seek or a delete",
    "leased": "in work",
}


def _steps(found: Detail, deliveries: list[Delivery], events: list[Trace], dead: Sequence[Row]) -> list[Step]:
    one = found.listed
    steps = [Step(at=one.created_at, what="pushed", note=f"by {one.producer_sub}" if one.producer_sub else None)]
    for each in deliveries:
        end = each.ended_at or datetime.now(UTC)
        took = (end - each.leased_at).total_seconds()
        batch = f"in a batch of {each.batch_to - each.batch_from + 1}" if each.batch_to > each.batch_from else None
        kind: Any = _KINDS.get(each.outcome, "work")
        what = f"taken, {_SAID.get(each.outcome, each.outcome)}"
        steps.append(Step(at=each.leased_at, what=what, group=each.group, seconds=took, note=batch, kind=kind))
    steps += [Step(at=event.created_at, what=event.event_type, group=event.group, note=event.data) for event in events]
    for row in dead:
        steps.append(
            Step(at=row["failed_at"], what="dead letter", group=row["consumer_group"], note=row["error_message"],
                 kind="failed")
        )  # fmt: skip
        if row["redriven_at"]:
            steps.append(Step(at=row["redriven_at"], what="redriven as a new message", group=row["consumer_group"]))
    return sorted(steps, key=lambda step: step.at)


def _tracks(found: Detail, deliveries: list[Delivery], end: datetime, total: float, given_up: set[str]) -> list[Track]:
    """What each group did, as stretches of the whole: waiting in between, working inside."""
    start = found.listed.created_at
    tracks = []
    for group in found.groups:
        stations: list[Station] = []
        at = start
        for each in [each for each in deliveries if each.group == group.name]:
            until = each.ended_at or end
            stations.append(_station(start, total, at, each.leased_at, "wait", "waited"))
            words = _SAID.get(each.outcome, each.outcome)
            kind = _KINDS.get(each.outcome, "work")
            stations.append(_station(start, total, each.leased_at, until, kind, words))
            at = max(at, until)
        if not group.consumed:
            stations.append(_station(start, total, at, end, "wait", "waits"))
        state = "done" if group.consumed else "in work" if group.lease_expires_at else "waiting"
        state = "dead letter" if group.name in given_up else state
        tracks.append(Track(group=group.name, stations=stations, state=state))
    return tracks


def _station(start: datetime, total: float, begin: datetime, end: datetime, kind: str, words: str) -> Station:
    seconds = max((end - begin).total_seconds(), 0.0)
    x = min(max((begin - start).total_seconds(), 0.0) / total, 1.0) * 1000
    width = min(max(seconds / total * 1000, 3.0 if kind != "wait" else 0.0), 1000 - min(x, 997.0))
    return Station(x=round(min(x, 997.0), 1), width=round(width, 1), kind=kind, words=f"{words} {fine_span(seconds)}")


def _axis(total: float) -> list[tuple[float, str]]:
    """Where the marks of the time axis stand, of 1000, and what they say."""
    return [(place * 1000, fine_span(total * place)) for place in (0.0, 0.25, 0.5, 0.75, 1.0)]


@ask("bury", "ask_bury.html")
async def ask_bury(visit: Visit) -> dict[str, Any]:
    """What giving a message up means."""
    found = await known_message(visit)
    group = visit.text("group")
    stuck = next((each for each in visit.look.stuck if each.partition_id == found.listed.partition_id), None)
    return {"message": found.listed, "group": group, "groups": [each.name for each in found.groups], "stuck": stuck}


@act("bury")
async def bury(visit: Visit) -> Done:
    """Move a message to the dead letters of a group."""
    found = await known_message(visit)
    one, group = found.listed, visit.need("group")
    visit.require("write", one.queue)
    reason = visit.text("reason") or f"given up by {visit.identity.subject or 'an operator'}"
    number = await browser(visit).bury(one.partition_id, one.transaction_id, group=group, error=reason)
    where = f"{one.queue} / {one.partition}"
    text = f"Message {one.seq} of {where} is a dead letter of {group_name(group)}; those behind it go on."
    return Done(text, one.queue, group, {"transactionId": one.transaction_id}, page=url("dead-letter", id=number))


@ask("retry-message", "ask_message.html")
async def ask_retry(visit: Visit) -> dict[str, Any]:
    """What pushing a message again means."""
    return {"message": (await known_message(visit)).listed, "delete": False}


@act("retry-message")
async def retry(visit: Visit) -> Done:
    """Push a message again, as a new one."""
    one = (await known_message(visit)).listed
    visit.require("write", one.queue)
    again = await browser(visit).retry(one.partition_id, one.transaction_id)
    if again is None:
        raise errors.MessageNotFound("there is no such message any more")
    where = url("message", partition=one.partition_id, transaction=again.id)
    text = f"Pushed again to {one.queue} / {one.partition} as message {again.seq}."
    undo = Undo("delete-message", {
        "queue": one.queue, "partition": str(one.partition_id), "transaction": str(again.id),
    })  # fmt: skip
    return Done(text, one.queue, one.partition, {"seq": again.seq}, undo, where)


@ask("delete-message", "ask_message.html")
async def ask_delete(visit: Visit) -> dict[str, Any]:
    """What deleting a message means."""
    return {"message": (await known_message(visit)).listed, "delete": True}


@act("delete-message")
async def delete(visit: Visit) -> Done:
    """Remove one message by hand."""
    one = (await known_message(visit)).listed
    visit.require("write", one.queue)
    if not await visit.request.engine.delete_message(one.partition_id, one.transaction_id):
        raise errors.MessageNotFound("there is no such message any more")
    text = f"Message {one.seq} of {one.queue} / {one.partition} is deleted."
    return Done(text, one.queue, one.partition, page=url("messages", queue=one.queue))
