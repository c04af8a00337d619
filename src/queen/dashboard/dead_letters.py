"""Dead letters: clustered by error, inspected, edited, redriven in portions, purged; counted before each step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from queen import errors
from queen.dashboard.acts import Done, act, ask
from queen.dashboard.frame import Visit, page
from queen.dashboard.look import ErrorLook
from queen.dashboard.queues import host_of
from queen.dashboard.words import plural, url
from queen.engine.dead_letters import DeadLetter, Selection, Wanted
from queen.engine.reading import Window
from queen.server.wire import Wire

PAGE: Final = 25
CLUSTERS: Final = 12
STEP: Final = 500
COUNTED: Final = 100_000
LAST: Final = 2**62
PERIODS: Final = {"1h": "last hour", "today": "today", "yesterday": "yesterday", "7d": "last 7 days", "all": "any time"}
_FILTERS: Final = ("queue", "group", "partition", "error", "contains", "period")


class Cluster(Wire, kw_only=True):
    """Dead letters with the same kind of error."""

    error: str
    sample: str
    dead_letters: int
    lately: int
    first_failed_at: datetime
    last_failed_at: datetime
    queues: list[str]
    groups: list[str]
    newest: int


class DeadRow(Wire, kw_only=True):
    """A dead letter in a list."""

    id: int
    queue: str
    partition: str
    partition_id: int
    group: str
    transaction_id: str
    error: str
    retry_count: int
    failed_at: datetime


class DeadLetters(Wire, kw_only=True):
    """Dead letters that match, and what they have in common."""

    clusters: list[Cluster]
    dead_letters: list[DeadRow]
    matching: int
    more: bool
    filters: dict[str, str]
    queues: list[str]
    next_cursor: str | None
    host: str


class DeadOne(Wire, kw_only=True):
    """One dead letter."""

    row: DeadRow
    payload: str
    encrypted: bool
    evicted: bool
    message_id: UUID
    trace_id: UUID | None
    producer: str | None
    seq: int
    created_at: datetime
    redriven_at: datetime | None
    redriven_as: UUID | None
    error: str


def period(name: str | None, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The stretch of time a word stands for, by UTC days."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match name or "all":
        case "1h":
            return now - timedelta(hours=1), None
        case "today":
            return today, None
        case "yesterday":
            return today - timedelta(days=1), today
        case "7d":
            return now - timedelta(days=7), None
        case "all":
            return None, None
        case other:
            raise errors.InvalidRequest("period", f"period must be one of {', '.join(PERIODS)}, not {other!r}")


def _filters(visit: Visit) -> dict[str, str]:
    found = {name: visit.text(name) for name in _FILTERS}
    return {name: value for name, value in found.items() if value is not None}


def _wanted(visit: Visit) -> Wanted:
    since, until = period(visit.text("period"), datetime.now(UTC))
    queue = visit.text("queue")
    if queue is not None and not visit.sees(queue):
        raise errors.QueueNotFound(f"there is no queue {queue!r}")
    return Wanted(
        queue=queue,
        group=visit.text("group"),
        partition=visit.text("partition"),
        error_contains=visit.text("contains"),
        since=since,
        until=until,
        error=visit.text("error"),
    )


@page("dead_letters.html", "Dead letters")
async def dead_letters(visit: Visit) -> DeadLetters:
    """Dead letters by what they have in common, and one by one."""
    if visit.identity.queues is not None and visit.text("queue") is None:
        rows: list[DeadLetter] = []
        cursor, matching, more = None, 0, False
    else:
        found, _ = await visit.request.engine.dead_letters.browse(
            wanted := _wanted(visit), Window(limit=PAGE, cursor=visit.text("cursor"))
        )
        rows, cursor = found.items, found.next_cursor
        matching, more = await _count(visit, wanted)
    return DeadLetters(
        clusters=_clusters(visit),
        dead_letters=[_row(each) for each in rows],
        matching=matching,
        more=more,
        filters=_filters(visit),
        queues=sorted(queue.name for queue in visit.look.queues.values() if visit.sees(queue.name)),
        next_cursor=cursor,
        host=host_of(visit),
    )


def _clusters(visit: Visit) -> list[Cluster]:
    queue = visit.text("queue")
    found = []
    for each in visit.look.errors:
        names = [visit.look.queues[number].name for number in each.queue_ids if number in visit.look.queues]
        names = [name for name in names if visit.sees(name) and queue in (None, name)]
        if names and (visit.identity.queues is None or len(names) == len(each.queue_ids)):
            found.append(_cluster(each, names))
    return found[:CLUSTERS]


def _cluster(each: ErrorLook, names: list[str]) -> Cluster:
    return Cluster(
        queues=names,
        groups=each.consumer_groups,
        **{
            name: getattr(each, name)
            for name in ("error", "sample", "dead_letters", "lately", "first_failed_at", "last_failed_at", "newest")
        },
    )


def _row(found: DeadLetter) -> DeadRow:
    return DeadRow(
        error=found.error_message,
        **{
            name: getattr(found, name)
            for name in ("id", "queue", "partition", "partition_id", "group", "transaction_id", "retry_count",
                         "failed_at")
        },
    )  # fmt: skip


async def _count(visit: Visit, wanted: Wanted) -> tuple[int, bool]:
    """How many match, up to a limit, and whether there are more."""
    *filters, _ = wanted.arguments()
    rows = await visit.looker.fetch("count_dead_letters", *filters, COUNTED + 1)
    return min(rows[0]["total"], COUNTED), rows[0]["total"] > COUNTED


async def _known(visit: Visit, field: str = "id") -> DeadLetter:
    found = await visit.request.engine.dead_letters.get(visit.number(field))
    if found is None or not visit.sees(found.queue):
        raise errors.MessageNotFound("there is no such dead letter; it may have been purged")
    return found


@page("dead_letter.html", "Dead letters")
async def dead_letter(visit: Visit) -> DeadOne:
    """One dead letter, to look at, edit and redrive."""
    found = await _known(visit)
    return DeadOne(
        row=_row(found),
        payload=found.payload,
        encrypted=found.is_encrypted,
        producer=found.producer_sub,
        error=found.error_message,
        **{
            name: getattr(found, name)
            for name in ("evicted", "message_id", "trace_id", "seq", "created_at", "redriven_at", "redriven_as")
        },
    )


def _ids(visit: Visit) -> list[int]:
    try:
        return [int(text) for text in (visit.text("id") or "").split("\n") if text]
    except ValueError:
        raise errors.InvalidRequest("id", "id must be numbers of dead letters") from None


@ask("redrive", "ask_redrive.html")
async def ask_redrive(visit: Visit) -> dict[str, Any]:
    """How many will be redriven."""
    matching, more = await _count(visit, _wanted(visit))
    return {"matching": matching, "more": more, "filters": _filters(visit), "total": matching}


@ask("purge", "ask_purge.html")
async def ask_purge(visit: Visit) -> dict[str, Any]:
    """How many will be removed."""
    matching, more = await _count(visit, _wanted(visit))
    return {"matching": matching, "more": more, "filters": _filters(visit)}


def _require_queue(visit: Visit) -> None:
    """A token for single queues must name one of them."""
    visit.require("write", visit.text("queue"))


async def _some(visit: Visit, after: int) -> list[int]:
    *filters, _ = _wanted(visit).arguments()
    last = visit.number("last", LAST)
    return [row["id"] for row in await visit.looker.fetch("dead_letter_ids", *filters, after, last, STEP)]


@act("redrive")
async def redrive(visit: Visit) -> Done:
    """Redrive the next of the dead letters that match; the page asks for one portion after the other."""
    _require_queue(visit)
    done, total, after = visit.number("done", 0), visit.number("total", 0), visit.number("after", 0)
    last = visit.number("last", 0)
    if not last:
        newest = await visit.looker.fetch("newest_dead_letter")
        last = newest[0]["id"]
    visit.form = {**visit.form, "last": str(last)}
    ids = await _some(visit, after)
    if ids:
        result = await visit.request.engine.dead_letters.redrive(Selection(ids=ids), limit=STEP)
        done += result.redriven
    finished = len(ids) < STEP
    values = {
        "done": done, "total": max(total, done), "after": ids[-1] if ids else after, "last": last,
        "filters": _filters(visit), "finished": finished,
    }  # fmt: skip
    text = f"{plural(done, 'dead letter')} redriven: {_described(visit)}."
    detail = {"redriven": done, **_filters(visit)}
    return Done(text, visit.text("queue"), None, detail, part="redriving.html", values=values, noted=finished)


def _described(visit: Visit) -> str:
    return ", ".join(f"{name} {value}" for name, value in _filters(visit).items()) or "all there were"


@act("redrive-selected")
async def redrive_selected(visit: Visit) -> Done:
    """Redrive the dead letters that were chosen, or one with an edited payload."""
    ids = _ids(visit)
    if not ids:
        raise errors.InvalidRequest("id", "choose at least one dead letter")
    _require_queue(visit)
    payload = visit.text("payload")
    if payload is not None:
        try:
            msgspec.json.decode(payload)
        except msgspec.DecodeError as error:
            raise errors.InvalidRequest("payload", f"the payload is not JSON: {error}") from None
    queue = visit.text("queue")
    result = await visit.request.engine.dead_letters.redrive(
        Selection(ids=ids, queue=queue), payload=payload, limit=max(len(ids), 1)
    )
    edited = " with the edited payload" if payload is not None else ""
    detail = {"ids": ids[:50], "redriven": result.redriven}
    where = url("messages", queue=queue) if queue else None
    return Done(f"{plural(result.redriven, 'dead letter')} redriven{edited}.", queue, None, detail, page=where)


@act("purge", "admin")
async def purge(visit: Visit) -> Done:
    """Remove the dead letters that match, a portion at a time, until none is left."""
    visit.require("admin", visit.text("queue"))
    expected, removed, after = visit.number("expected"), 0, 0
    newest = await visit.looker.fetch("newest_dead_letter")
    visit.form = {**visit.form, "last": str(newest[0]["id"])}
    while ids := await _some(visit, after):
        removed += await visit.request.engine.dead_letters.purge(Selection(ids=ids))
        after = ids[-1]
        if removed > expected + STEP:
            break
    text = f"{plural(removed, 'dead letter')} removed for good: {_described(visit)}."
    return Done(text, visit.text("queue"), None, {"removed": removed, **_filters(visit)})


@act("purge-selected", "admin")
async def purge_selected(visit: Visit) -> Done:
    """Remove the dead letters that were chosen."""
    ids = _ids(visit)
    if not ids:
        raise errors.InvalidRequest("id", "choose at least one dead letter")
    visit.require("admin", visit.text("queue"))
    removed = await visit.request.engine.dead_letters.purge(Selection(ids=ids, queue=visit.text("queue")))
    return Done(f"{plural(removed, 'dead letter')} removed for good.", visit.text("queue"), None, {"ids": ids[:50]})
