"""Durable workflows: list them, look into them, start, signal and cancel them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar, get_args

from msgspec import UNSET, Raw, UnsetType

from queen import errors
from queen.durable.admin import Begun, Started, WorkflowAdmin, WorkflowDetail, WorkflowHistory, WorkflowPage
from queen.durable.codec import load
from queen.durable.model import ExecutionStatus, InstanceQuery, pack_version
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.server.listing import CURSOR, moment
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Decoder, Response, Wire, answer

T = TypeVar("T")

STATUSES: Final[tuple[ExecutionStatus, ...]] = get_args(ExecutionStatus)
PAGE: Final = 100
LONGEST_NAME: Final = 1024
LONGEST_DELAY_MS: Final = 10 * 366 * 86_400_000
BIGGEST_CURSOR: Final = 2**63 - 1
LAST_STEP: Final = 2**31 - 1


class Start(Wire):
    """What to start; without `id` it gets a new one. A `dedupId` is accepted once per id."""

    name: str
    input: Raw | UnsetType = UNSET
    id: str | None = None
    version: str | None = None
    delay_ms: int = 0
    trace_id: str | None = None
    dedup_id: str | None = None


class Raise(Wire):
    """An external event."""

    name: str
    data: Raw | UnsetType = UNSET


class Cancel(Wire):
    """Why, for the history; `force` ends the instance without asking its code."""

    reason: str | None = None
    force: bool = False


class Again(Wire):
    """From which step of the current execution, and in which version of the code."""

    from_step: int | None = None
    version: str | None = None


class Retry(Wire):
    """In which version of the code, unless in its own."""

    version: str | None = None


class Fork(Wire):
    """The id of the new instance, from which step it goes on, and in which version of the code."""

    id: str | None = None
    from_step: int | None = None
    version: str | None = None


class Told(Wire):
    """The instance will hear of it with its next turn."""

    success: bool
    id: str


DECODE_START: Final = Decoder(Start)
DECODE_RAISE: Final = Decoder(Raise)
DECODE_CANCEL: Final = Decoder(Cancel)
DECODE_RETRY: Final = Decoder(Retry)
DECODE_AGAIN: Final = Decoder(Again)
DECODE_FORK: Final = Decoder(Fork)


def _admin(request: Request) -> WorkflowAdmin:
    return WorkflowAdmin(PostgresProvider.over(request.engine.database))


async def _explained(work: Awaitable[T]) -> T:
    try:
        return await work
    except ProviderError as error:
        if isinstance(error.__cause__, errors.QueenError):
            raise error.__cause__ from None
        raise errors.InternalError(str(error)) from error


def _named(field: str, value: str) -> str:
    if not 1 <= len(value) <= LONGEST_NAME or "\0" in value:
        raise errors.InvalidRequest(field, f"{field} must have 1 to {LONGEST_NAME} characters, and no NUL")
    return value


def _named_or_none(field: str, value: str | None) -> str | None:
    return None if value is None else _named(field, value)


def _id(request: Request) -> str:
    return _named("id", request.params[0])


def _version(value: str | None) -> str | None:
    if value is not None:
        try:
            pack_version(value)
        except ValueError as error:
            raise errors.InvalidRequest("version", str(error)) from None
    return value


def _milliseconds(request: Request, name: str) -> int | None:
    found = moment(request, name)
    return None if found is None else round(found.timestamp() * 1000)


def _status(request: Request) -> ExecutionStatus | None:
    given = request.text("status")
    status = next((each for each in STATUSES if each == given), None)
    if given is not None and status is None:
        raise errors.InvalidRequest("status", f"status must be one of {', '.join(STATUSES)}")
    return status


def _cursor(request: Request) -> str | None:
    given = request.text("cursor")
    if given is not None and not (given.isascii() and given.isdecimal() and int(given[:20]) <= BIGGEST_CURSOR):
        raise errors.InvalidRequest("cursor", "cursor must be the nextCursor of an earlier page")
    return given


def _attribute(request: Request) -> dict[str, Any]:
    given = request.text("attribute")
    if given is None:
        return {}
    name, found, value = given.partition("=")
    if not (found and name):
        raise errors.InvalidRequest("attribute", "attribute must look like NAME=VALUE")
    return {name: load(value)}


async def workflows(request: Request) -> Response:
    """Instances, newest first; every filter given must match."""
    query = InstanceQuery(
        name=request.text("name"),
        status=_status(request),
        parent_instance=request.text("parentId"),
        trace_id=request.text("traceId"),
        created_from_ms=_milliseconds(request, "from"),
        created_before_ms=_milliseconds(request, "to"),
        id_prefix=request.text("idPrefix"),
        attributes=_attribute(request),
        limit=request.number("limit", PAGE, 1, 1000),
        cursor=_cursor(request),
    )
    return answer(await _explained(_admin(request).list(query)))


async def workflow(request: Request) -> Response:
    """One instance with its executions, family, keys and steps; it is known from its first turn on."""
    return answer(await _explained(_admin(request).show(_id(request))))


async def history(request: Request) -> Response:
    """The events of one execution, of the current one unless given."""
    execution = request.number("execution", 0, 1) or None
    return answer(await _explained(_admin(request).history(_id(request), execution)))


async def start(request: Request) -> Response:
    """Ask for an instance; a taken id changes nothing, a repeated `dedupId` is answered with `accepted` false."""
    body: Start = DECODE_START(request.body)
    if not 0 <= body.delay_ms <= LONGEST_DELAY_MS:
        raise errors.InvalidRequest("delay_ms", f"delayMs must be between 0 and {LONGEST_DELAY_MS}")
    work = _admin(request).start(
        _named("name", body.name),
        None if body.input is UNSET else body.input,
        id=_named_or_none("id", body.id),
        version=_version(body.version),
        delay_ms=body.delay_ms,
        trace_id=_named_or_none("trace_id", body.trace_id),
        dedup_id=_named_or_none("dedup_id", body.dedup_id),
    )
    return answer(await _explained(work), 201)


async def raise_event(request: Request) -> Response:
    """Raise an external event; whoever waits for its name in the instance goes on."""
    body: Raise = DECODE_RAISE(request.body)
    instance, data = _id(request), None if body.data is UNSET else body.data
    await _explained(_admin(request).raise_event(instance, _named("name", body.name), data))
    return answer(Told(True, instance))


async def cancel(request: Request) -> Response:
    """Ask an instance to end; its open children end with it."""
    body: Cancel = DECODE_CANCEL(request.body)
    instance = _id(request)
    work = _admin(request).cancel(instance, _named_or_none("reason", body.reason), force=body.force)
    await _explained(work)
    return answer(Told(True, instance))


def _step(value: int | None) -> int | None:
    if value is not None and not 2 <= value <= LAST_STEP:
        raise errors.InvalidRequest("from_step", f"fromStep must be between 2 and {LAST_STEP}")
    return value


async def retry(request: Request) -> Response:
    """Try a parked instance at once, or run what failed last of a failed or cancelled one again."""
    body: Retry = DECODE_RETRY(request.body)
    return answer(await _explained(_admin(request).retry(_id(request), version=_version(body.version))))


async def reset(request: Request) -> Response:
    """Begin a new execution from a step of the current one, or from its start."""
    body: Again = DECODE_AGAIN(request.body)
    step, version = _step(body.from_step), _version(body.version)
    return answer(await _explained(_admin(request).reset(_id(request), from_step=step, version=version)))


async def fork(request: Request) -> Response:
    """Start another instance that goes on from a step of this one, which stays as it is."""
    body: Fork = DECODE_FORK(request.body)
    step, version, new = _step(body.from_step), _version(body.version), _named_or_none("id", body.id)
    return answer(await _explained(_admin(request).fork(_id(request), new, from_step=step, version=version)), 201)


_FILTERS: Final = (
    Query("name"),
    Query("status", description=f"One of {', '.join(STATUSES)}, of the current execution."),
    Query("idPrefix"),
    Query("parentId"),
    Query("traceId"),
    Query("attribute", description="NAME=VALUE; the value is JSON, or text."),
    Query("from", description="ISO time the instance was not created before."),
    Query("to", description="ISO time it was created before."),
    Query("limit", "integer", default=PAGE),
    CURSOR,
)
_EXECUTION: Final = Query("execution", "integer", "The current one unless given.")

ROUTES = [
    Route("GET", "/api/v1/workflows", workflows, role="read", answer=WorkflowPage, query=_FILTERS),
    Route("POST", "/api/v1/workflows/start", start, body=Start, answer=Started, status=201),
    Route("GET", "/api/v1/workflows/:id", workflow, role="read", answer=WorkflowDetail, others=(404,)),
    Route(
        "GET",
        "/api/v1/workflows/:id/history",
        history,
        role="read",
        answer=WorkflowHistory,
        query=(_EXECUTION,),
        others=(404,),
    ),
    Route("POST", "/api/v1/workflows/:id/raise", raise_event, body=Raise, answer=Told, others=(404,)),
    Route(
        "POST", "/api/v1/workflows/:id/cancel", cancel, body=Cancel, answer=Told, others=(404,), act="workflow-cancel"
    ),
    Route(
        "POST", "/api/v1/workflows/:id/retry", retry, body=Retry, answer=Begun, others=(404, 409), act="workflow-retry"
    ),
    Route("POST", "/api/v1/workflows/:id/reset", reset, body=Again, answer=Begun, others=(404,), act="workflow-reset"),
    Route(
        "POST",
        "/api/v1/workflows/:id/fork",
        fork,
        body=Fork,
        answer=Begun,
        status=201,
        others=(404,),
        act="workflow-fork",
    ),
]
