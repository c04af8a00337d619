"""How a queue behaves: all of its options, and changing some of them."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from queen import errors
from queen.engine.options import QUEUE_OPTIONS, QueueOption
from queen.model import QueueConfig
from queen.server.listing import fill, name_of
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, millis


class QueueOptions(Wire):
    """A queue and every option it has."""

    id: int
    name: str
    namespace: str
    task: str
    priority: int
    lease_time: int
    retry_limit: int
    retry_delay: int
    max_deliveries: int
    partial_failure: Literal["dlq", "retry"]
    delayed_processing: int
    window_buffer: int
    retention_enabled: bool
    retention_seconds: int
    completed_retention_seconds: int
    max_wait_time_seconds: int
    encryption_enabled: bool
    max_size: int
    delivery_log: bool
    archive: bool
    paused: bool
    ttl: int
    dead_letter_queue: bool
    dlq_after_max_retries: bool
    created_at: str


class Changes(Wire):
    """What to change; the rest stays as it is."""

    namespace: str | None = None
    task: str | None = None
    priority: int | UnsetType = UNSET
    lease_time: int | UnsetType = UNSET
    retry_limit: int | UnsetType = UNSET
    retry_delay: int | UnsetType = UNSET
    max_deliveries: int | UnsetType = UNSET
    partial_failure: Literal["dlq", "retry"] | UnsetType = UNSET
    delayed_processing: int | UnsetType = UNSET
    window_buffer: int | UnsetType = UNSET
    retention_enabled: bool | UnsetType = UNSET
    retention_seconds: int | UnsetType = UNSET
    completed_retention_seconds: int | UnsetType = UNSET
    max_wait_time_seconds: int | UnsetType = UNSET
    encryption_enabled: bool | UnsetType = UNSET
    max_size: int | UnsetType = UNSET
    delivery_log: bool | UnsetType = UNSET
    archive: bool | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    ttl: int | UnsetType = UNSET
    dead_letter_queue: bool | UnsetType = UNSET
    dlq_after_max_retries: bool | UnsetType = UNSET


class Reference(Wire):
    """Every option a queue can have."""

    options: list[QueueOption]


DECODE: Final = Decoder(Changes)


async def options(request: Request) -> Response:
    """Every option of a queue."""
    (queue,) = request.params
    found = await request.engine.queues.queue(name_of("queue", queue))
    if found is None:
        raise errors.QueueNotFound(f"there is no queue {queue!r}")
    return answer(_say(found))


async def change(request: Request) -> Response:
    """Make a queue, or change the options that are named; all others keep their value."""
    (queue,) = request.params
    body: Changes = DECODE(request.body)
    values: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    if "max_size" in values:
        values["max_queue_size"] = values.pop("max_size")
    namespace, task = values.pop("namespace"), values.pop("task")
    before = await request.engine.queues.queue(name_of("queue", queue))
    found = await request.engine.queues.configure(queue, values, namespace=namespace, task=task)
    request.changed = found != before
    return answer(_say(found))


async def explained(_request: Request) -> Response:
    """What every option of a queue is called, takes and does."""
    return answer(Reference(list(QUEUE_OPTIONS)))


def _say(found: QueueConfig) -> QueueOptions:
    return fill(QueueOptions, found, max_size=found.max_queue_size, created_at=millis(found.created_at))


ROUTES = [
    Route("GET", "/api/v1/queue-options", explained, role="read", answer=Reference),
    Route("GET", "/api/v1/queues/:queue/options", options, role="read", answer=QueueOptions, others=(404,)),
    Route(
        "PUT",
        "/api/v1/queues/:queue/options",
        change,
        body=Changes,
        answer=QueueOptions,
        others=(400,),
        act="configure",
    ),
]
