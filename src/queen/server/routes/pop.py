"""GET /api/v1/pop: from a queue, from one of its partitions, or from whatever queue matches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from queen import errors
from queen.model import QUEUE_MODE, Message, Mode, PopRequest
from queen.server.popped import PopAnswer, popped_body
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import NOTHING, Response, time_of

AUTOPILOT_BATCH: Final = 200
MAX_WAIT: Final = 300_000


async def pop(request: Request) -> Response:
    """Take messages of a queue from any partition that has some."""
    (queue,) = request.params
    return await _pop(request, queue, None)


async def pop_partition(request: Request) -> Response:
    """Take messages of one partition."""
    queue, partition = request.params
    return await _pop(request, queue, partition)


async def pop_matching(request: Request) -> Response:
    """Take messages from the first queue of a namespace and/or task that has some, by priority."""
    namespace, task = request.text("namespace"), request.text("task")
    if namespace is None and task is None:
        raise errors.InvalidRequest("namespace", "namespace or task is required")
    if request.broker.watch.modes.pop:
        return NOTHING
    started = time.monotonic()
    wanted = read_request(request, "", None)
    found = await _waited(request, wanted, namespace, task)
    await _require_readable(request, found)
    return _answer(request, found, wanted, started)


async def _pop(request: Request, queue: str, partition: str | None) -> Response:
    if request.broker.watch.modes.pop:
        return NOTHING
    started = time.monotonic()
    wanted = read_request(request, queue, partition)
    if wanted.wait:
        found = await _waited(request, wanted, None, None)
    else:
        found = await request.engine.pop(wanted)
    await _require_readable(request, found)
    return _answer(request, found, wanted, started)


class Unreadable(errors.QueenError):
    """Messages are encrypted with a key this broker does not have; they wait until it has."""

    code = "ENCRYPTION_UNAVAILABLE"
    status = 503
    retryable = True


async def _require_readable(request: Request, found: Sequence[Message]) -> None:
    """Give back what cannot be decrypted: consumers know of no other way to tell it from data."""
    broken = next((message for message in found if message.broken is not None), None)
    if broken is not None and broken.lease_id is not None:
        await _give_back(request, found)
        raise Unreadable(
            f"message {broken.transaction_id!r} of queue {broken.queue!r} cannot be read: {broken.broken}",
            figures={"queue": broken.queue, "partition": broken.partition},
        )


async def _waited(request: Request, wanted: PopRequest, namespace: str | None, task: str | None) -> list[Message]:
    engine = request.engine
    matching = namespace is not None or task is not None
    work = engine.pop_matching(namespace, task, wanted) if matching else engine.pop(wanted)
    return await request.broker.pop(request.unless_gone(work)) or []


def read_request(request: Request, queue: str, partition: str | None) -> PopRequest:
    """What the query asks for."""
    settings = request.settings
    query = request.query
    if request.flag("conflation"):
        raise errors.InvalidRequest("conflation", "conflation is not supported")
    default = AUTOPILOT_BATCH if request.flag("autopilot") else settings.default_batch
    group = query.get("consumerGroup") or QUEUE_MODE
    mode, start_at = _subscription(request) if group != QUEUE_MODE else ("all", None)
    wait = 0.0
    if request.flag("wait"):
        wait = min(request.number("timeout", int(settings.default_timeout * 1000)), MAX_WAIT) / 1000
    return PopRequest(
        queue=queue,
        partition=partition,
        group=group,
        batch=min(request.number("batch", default, low=1), settings.batch_limit),
        partitions=1 if partition is not None else min(request.number("partitions", 1, low=1), settings.batch_limit),
        wait=wait,
        lease_seconds=request.number("leaseSeconds", 0, 1, 86_400) if "leaseSeconds" in query else None,
        auto_ack=request.flag("autoAck"),
        mode=mode,
        start_at=start_at,
        prefetch=request.flag("prefetch"),
        max_bytes=min(request.number("maxBytes", settings.pop_byte_limit, low=1), settings.pop_byte_limit),
    )


def _subscription(request: Request) -> tuple[Mode, datetime | None]:
    start = request.text("subscriptionFrom")
    if start == "now":
        return "new", None
    if start is not None:
        try:
            return "timestamp", time_of("subscriptionFrom", start)
        except errors.InvalidRequest:
            pass
    mode = request.text("subscriptionMode", request.settings.default_subscription)
    return ("new" if mode in ("new", "new-only") else "all"), None


def _answer(request: Request, found: Sequence[Message], wanted: PopRequest, started: float) -> Response:
    if not found:
        return NOTHING
    metrics = request.broker.metrics
    metrics.done("pop", len(found), started if not wanted.wait else time.monotonic())
    metrics.handed_out(found, datetime.now(UTC))
    request.broker.handed.remember(found)
    claimed = len({message.partition_id for message in found}) if wanted.partition is None else None
    return Response(200, popped_body(found, claimed), undelivered=partial(_give_back, request, found))


async def _give_back(request: Request, found: Sequence[Message]) -> None:
    """The caller hung up before it was answered: others get the messages now, not when the lease ends."""
    leases = {message.lease_id for message in found if message.lease_id is not None}
    with suppress(errors.QueenError):
        await request.engine.release(list(leases))


_QUERY: Final = (
    Query("batch", "integer", "Most messages to return, over all partitions.", 1),
    Query("wait", "boolean", "Wait until there is something.", False),
    Query("timeout", "integer", "How long to wait, in milliseconds.", 30_000),
    Query("consumerGroup", description="The group that pops; none is queue mode."),
    Query("autoAck", "boolean", "Count the messages as done when they are handed out.", False),
    Query("subscriptionMode", description="Where a new group starts: all or new."),
    Query("subscriptionFrom", description="Where a new group starts: now, or a time."),
    Query("maxBytes", "integer", "Most bytes of payloads to return; the first message comes whatever its size."),
    Query("leaseSeconds", "integer", "How long the lease lives; the queue's own time unless given."),
    Query(
        "prefetch",
        "boolean",
        "They will be worked on one by one, each acknowledged before the next: only the first counts as delivered.",
        False,
    ),
)
_PARTITIONS: Final = Query("partitions", "integer", "Most partitions to take from.", 1)

ROUTES = [
    Route(
        "GET",
        "/api/v1/pop/queue/:queue",
        pop,
        permission="pop",
        answer=PopAnswer,
        query=(*_QUERY, _PARTITIONS),
        empty=204,
        safe=False,
    ),
    Route(
        "GET",
        "/api/v1/pop/queue/:queue/partition/:partition",
        pop_partition,
        permission="pop",
        answer=PopAnswer,
        query=_QUERY,
        empty=204,
        safe=False,
    ),
    Route(
        "GET",
        "/api/v1/pop",
        pop_matching,
        answer=PopAnswer,
        query=(*_QUERY, _PARTITIONS, Query("namespace"), Query("task")),
        empty=204,
        safe=False,
    ),
]
