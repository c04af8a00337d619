"""POST /api/v1/configure: make a queue, or change how it behaves."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from queen import errors
from queen.ids import to_wire
from queen.model import QueueConfig
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, partition_id
from queen.sql import query

ECHOED_RETRY_DELAY: Final = 1000


class Options(Wire):
    """How a queue behaves. What is left out goes back to its default, but for the last four."""

    lease_time: int | None = 300
    retry_limit: int | None = 3
    retry_delay: int | None = None
    max_size: int | None = 0
    ttl: int | None = 3600
    priority: int | None = 0
    dead_letter_queue: bool | None = False
    dlq_after_max_retries: bool | None = False
    delayed_processing: int | None = 0
    window_buffer: int | None = 0
    retention_seconds: int | None = 0
    completed_retention_seconds: int | None = 0
    retention_enabled: bool | None = False
    encryption_enabled: bool | None = False
    max_wait_time_seconds: int | None = 0
    max_deliveries: int | UnsetType | None = UNSET
    partial_failure: Literal["dlq", "retry"] | UnsetType | None = UNSET
    delivery_log: bool | UnsetType | None = UNSET
    archive: bool | UnsetType | None = UNSET


class Configure(Wire):
    """A queue and its options."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    options: Options | None = None


class StoredOptions(Wire):
    """The options as they are now."""

    lease_time: int
    retry_limit: int
    retry_delay: int
    max_size: int
    ttl: int
    priority: int
    dead_letter_queue: bool
    dlq_after_max_retries: bool
    delayed_processing: int
    window_buffer: int
    retention_seconds: int
    completed_retention_seconds: int
    retention_enabled: bool
    encryption_enabled: bool
    max_wait_time_seconds: int
    max_deliveries: int
    partial_failure: str
    delivery_log: bool
    archive: bool


class Configured(Wire):
    """The queue after the change."""

    configured: bool
    queue: str
    namespace: str
    task: str
    queue_id: str
    partition_id: str
    options: StoredOptions = field()


DECODE: Final = Decoder(Configure, {"queue": "queue is required"})
_DEFAULTS: Final = msgspec.structs.asdict(Options())
_WIRE: Final = {"max_queue_size": "max_size"}


async def configure(request: Request) -> Response:
    """Make a queue or change it; an option left out goes back to its default."""
    body: Configure = DECODE(request.body)
    request.identity.require("admin", [body.queue])
    given = body.options or Options()
    before = None if "\0" in body.queue else await request.engine.queues.queue(body.queue)
    try:
        queue = await request.engine.queues.configure(
            body.queue, _stored(given), namespace=body.namespace, task=body.task
        )
    except errors.InvalidRequest as error:
        raise errors.InvalidRequest(error.field, error.message.replace(error.field, _camel(error.field))) from None
    request.changed = queue != before  # clients say at each start what they want
    rows = await request.engine.database.fetch(query("server/default_partition"), queue.id)
    return answer(
        Configured(
            True,
            queue.name,
            queue.namespace,
            queue.task,
            to_wire("queue", queue.id),
            partition_id(rows[0]["id"]) if rows else "",
            _echo(queue, given),
        )
    )


def _stored(given: Options) -> dict[str, Any]:
    """The engine's options: null counts as left out, a lease of 0 as 60 seconds, no retryDelay as none."""
    values = msgspec.structs.asdict(given)
    options = {name: _DEFAULTS[name] if value is None else value for name, value in values.items()}
    options["lease_time"] = options["lease_time"] or 60
    options["retry_delay"] = options["retry_delay"] or 0
    options["max_queue_size"] = options.pop("max_size")
    return {name: value for name, value in options.items() if value is not UNSET}


def _echo(queue: QueueConfig, given: Options) -> StoredOptions:
    """What is stored; a retryDelay that was not asked for shows as 1000, which clients know was never applied."""
    values = {name: getattr(queue, name) for name in StoredOptions.__struct_fields__ if name != "max_size"}
    if given.retry_delay is None:
        values["retry_delay"] = ECHOED_RETRY_DELAY
    return StoredOptions(**values, max_size=queue.max_queue_size)


def _camel(name: str) -> str:
    first, *rest = _WIRE.get(name, name).split("_")
    return first + "".join(part.title() for part in rest)


ROUTES = [
    Route(
        "POST",
        "/api/v1/configure",
        configure,
        body=Configure,
        answer=Configured,
        own=True,
        others=(400,),
        act="configure",
    ),
]
