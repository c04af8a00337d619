"""POST /api/v1/messages/cancel: take back a message that nobody has begun."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from queen.model import DEFAULT_PARTITION, Standing
from queen.server.listing import name_of
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer


class Cancel(Wire):
    """A message by its place; `look` only tells where it stands."""

    queue: str
    id: UUID
    transaction_id: str | None = None
    partition: str = DEFAULT_PARTITION
    look: bool = False


class Cancelled(Wire):
    """Whether it was taken back, and where it stood."""

    cancelled: bool
    state: Standing


DECODE: Final = Decoder(Cancel, {"queue": "queue is required", "id": "id must be a UUID"})


async def cancel(request: Request) -> Response:
    """Remove a message that is scheduled or waits; one that runs, is done or dead stays as it is."""
    body: Cancel = DECODE(request.body)
    request.identity.require("push", [body.queue])
    state = await request.engine.cancel_message(
        name_of("queue", body.queue),
        name_of("partition", body.partition),
        body.id,
        body.transaction_id or str(body.id),
        look=body.look,
    )
    return answer(Cancelled(not body.look and state in ("scheduled", "waiting"), state))


ROUTES = [Route("POST", "/api/v1/messages/cancel", cancel, body=Cancel, answer=Cancelled, own=True)]
