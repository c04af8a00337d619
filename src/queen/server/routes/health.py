"""Is it there, is it fit for work."""

from __future__ import annotations

from queen import errors
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Response, Wire, answer
from queen.sql import query


class Health(Wire):
    """How the broker stands."""

    status: str
    database: str
    server: str
    version: str
    worker_id: int = 0


async def health(request: Request) -> Response:
    """Whether the broker and its database work."""
    try:
        await request.engine.database.fetch(query("engine/ping"))
    except errors.QueenError:
        return answer(
            Health(status="unhealthy", database="disconnected", server="queen", version=request.broker.version), 503
        )
    return answer(Health(status="healthy", database="connected", server="queen", version=request.broker.version))


ROUTES = [Route("GET", "/health", health, role="public", answer=Health, others=(503,))]
