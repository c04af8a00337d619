"""Dead letters: list them, group them, push them again, remove them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, UnsetType

from queen import errors
from queen.engine.dead_letters import DeadLetter, Selection, Wanted
from queen.ids import from_wire, to_wire
from queen.server.limits import require_at_most
from queen.server.listing import Pagination, fill, moment, paging, window
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Decoder, Response, Wire, answer, partition_id, raw, text, time_of

PAGE: Final = 100


class DeadLetterEntry(Wire):
    """A message a group gave up on; `id` is the message's, `deadLetterId` its own."""

    id: UUID
    dead_letter_id: str
    transaction_id: str
    partition_id: str
    queue: str
    partition: str
    consumer_group: str
    error_message: str
    retry_count: int
    data: Raw
    producer_sub: str | None
    trace_id: UUID | None
    parent_id: UUID | None
    evicted: bool
    is_encrypted: bool
    created_at: str
    failed_at: str
    redriven_at: str | None
    redriven_as: UUID | None


class DeadLetterList(Wire):
    """Dead letters, newest first."""

    messages: list[DeadLetterEntry]
    pagination: Pagination
    total: int
    next_cursor: str | None


class ErrorGroupEntry(Wire):
    """Dead letters whose errors differ only in details."""

    error: str
    count: int
    first_failed_at: str
    last_failed_at: str
    queues: list[str]
    consumer_groups: list[str]
    newest: str
    sample: str


class ErrorGroupList(Wire):
    """Groups of dead letters, the most frequent error first."""

    groups: list[ErrorGroupEntry]


class Select(Wire):
    """Which dead letters: by id, or every filter given must match."""

    ids: list[str] | None = None
    queue: str | None = None
    consumer_group: str | None = None
    error_contains: str | None = None
    before: str | None = None
    dry_run: bool = False


class Redrive(Select):
    """For whom (the group that failed, all groups, another queue), and with a single id what payload instead."""

    to_queue: str | None = None
    to_all: bool = False
    limit: int = 1000
    payload: Raw | UnsetType = UNSET


class RedriveResult(Wire):
    """How many matched, and how many were pushed again."""

    success: bool
    matched: int
    redriven: int
    dry_run: bool


class PurgeResult(Wire):
    """How many matched, and how many were removed."""

    success: bool
    matched: int
    purged: int
    dry_run: bool


DECODE_REDRIVE: Final = Decoder(Redrive)
DECODE_PURGE: Final = Decoder(Select)


def _say(letter: DeadLetter) -> DeadLetterEntry:
    return fill(
        DeadLetterEntry,
        letter,
        id=letter.message_id,
        dead_letter_id=to_wire("dead-letter", letter.id),
        partition_id=partition_id(letter.partition_id),
        consumer_group=letter.group,
        data=raw(letter.payload),
    )


def _selection(body: Select, limit: int) -> Selection:
    if body.ids is None and not (body.queue or body.consumer_group or body.error_contains or body.before):
        raise errors.InvalidRequest("ids", "say which: ids, queue, consumerGroup, errorContains or before")
    require_at_most("ids", body.ids or (), limit)
    ids = None if body.ids is None else [from_wire("dead-letter", each) for each in body.ids]
    if ids is not None and None in ids:
        raise errors.InvalidRequest("ids", "ids must be deadLetterId values of /api/v1/dlq")
    for name in (body.queue, body.consumer_group, body.error_contains):
        if name is not None and "\0" in name:
            raise errors.InvalidRequest("queue", "queue, consumerGroup and errorContains must not contain NUL")
    return Selection(
        ids=None if ids is None else [number for number in ids if number is not None],
        queue=body.queue,
        group=body.consumer_group,
        error_contains=body.error_contains,
        before=None if body.before is None else time_of("before", body.before),
    )


async def dead_letters(request: Request) -> Response:
    """Dead letters, newest first; those pushed again only with `redriven`. Encrypted payloads stay sealed."""
    asked = window(request, PAGE)
    page, total = await request.engine.dead_letters.browse(
        Wanted(
            queue=request.text("queue"),
            group=request.text("consumerGroup"),
            partition=request.text("partition"),
            error_contains=request.text("errorContains"),
            since=moment(request, "from"),
            until=moment(request, "to"),
            error=request.text("error"),
            redriven=request.flag("redriven"),
        ),
        asked,
    )
    entries = [_say(letter) for letter in page.items]
    return answer(DeadLetterList(entries, Pagination(asked.limit, asked.offset, total), total, page.next_cursor))


async def dead_letter(request: Request) -> Response:
    """One dead letter, decrypted."""
    (wire,) = request.params
    number = from_wire("dead-letter", wire)
    letter = None if number is None else await request.engine.dead_letters.get(number)
    if letter is None:
        raise errors.MessageNotFound("Message not found")
    return answer(_say(letter))


async def groups(request: Request) -> Response:
    """Dead letters grouped by what their errors have in common."""
    found = await request.engine.dead_letters.groups(
        queue=request.text("queue"),
        group=request.text("consumerGroup"),
        limit=request.number("limit", PAGE, 1, 1000),
    )
    return answer(
        ErrorGroupList(
            [
                fill(ErrorGroupEntry, each, count=each.dead_letters, newest=to_wire("dead-letter", each.newest))
                for each in found
            ]
        )
    )


async def redrive(request: Request) -> Response:
    """Push dead letters again: for the group that failed, with `toAll` for every group, or to another queue."""
    body: Redrive = DECODE_REDRIVE(request.body)
    request.changed = not body.dry_run
    done = await request.engine.dead_letters.redrive(
        _selection(body, request.settings.batch_limit),
        to_queue=body.to_queue,
        to_all=body.to_all,
        payload=None if body.payload is UNSET else text(body.payload),
        limit=body.limit,
        dry_run=body.dry_run,
    )
    return answer(RedriveResult(True, done.matched, done.redriven, body.dry_run))


async def purge(request: Request) -> Response:
    """Remove dead letters for good."""
    body: Select = DECODE_PURGE(request.body)
    request.changed = not body.dry_run
    count = await request.engine.dead_letters.purge(
        _selection(body, request.settings.batch_limit), dry_run=body.dry_run
    )
    return answer(PurgeResult(True, count, 0 if body.dry_run else count, body.dry_run))


_FILTERS: Final = (
    Query("queue"),
    Query("consumerGroup"),
    Query("partition"),
    Query("errorContains"),
    Query("error", description="A normalised error, as /api/v1/dlq/groups gives it."),
    Query("from", description="ISO time the failure is not before."),
    Query("to", description="ISO time the failure is not after."),
    Query("redriven", "boolean", "Show those pushed again, too."),
    *paging(PAGE),
)

ROUTES = [
    Route("GET", "/api/v1/dlq", dead_letters, role="read", answer=DeadLetterList, query=_FILTERS),
    Route(
        "GET",
        "/api/v1/dlq/groups",
        groups,
        role="read",
        answer=ErrorGroupList,
        query=(Query("queue"), Query("consumerGroup"), Query("limit", "integer", default=PAGE)),
    ),
    Route("GET", "/api/v1/dlq/:deadLetterId", dead_letter, role="read", answer=DeadLetterEntry, others=(404,)),
    Route("POST", "/api/v1/dlq/redrive", redrive, body=Redrive, answer=RedriveResult, others=(429,), act="redrive"),
    Route("POST", "/api/v1/dlq/purge", purge, role="admin", body=Select, answer=PurgeResult, act="purge"),
]
