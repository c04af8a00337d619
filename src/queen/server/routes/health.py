"""Is it there, is it fit for work."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from msgspec import field

from queen import errors
from queen.db import migrate
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Response, Wire, answer
from queen.sql import query

_LIMIT: Final = 3.0


class Health(Wire, omit_defaults=True):
    """How the broker stands."""

    status: str
    database: str
    server: str
    worker: int = field(name="worker_id")
    version: str
    uptime: float
    error: str | None = None


class Liveness(Wire):
    """The process answers."""

    status: str
    pid: int


class Readiness(Wire, omit_defaults=True):
    """Whether requests should be sent here."""

    status: str
    database: bool
    schema_current: bool
    draining: bool
    error: str | None = None


class Acceptance(Wire):
    """Whether pushes are taken, and where to."""

    status: str
    database: bool
    buffer: bool
    draining: bool


async def health(request: Request) -> Response:
    """Whether the broker and its database work."""
    problem = await _problem(request)
    return answer(
        Health(
            "unhealthy" if problem else "healthy",
            "disconnected" if problem else "connected",
            "queen",
            request.broker.worker,
            request.broker.version,
            round(time.time() - request.broker.started_at, 3),
            problem,
        ),
        503 if problem else 200,
    )


async def live(request: Request) -> Response:
    """Whether the process answers; says nothing about the database."""
    return answer(Liveness("alive", os.getpid()))


async def ready(request: Request) -> Response:
    """Whether requests should be sent here: the database answers, its schema is current, and we are not stopping."""
    problem = await _problem(request)
    current = not problem and await _schema_is_current(request)
    draining = request.broker.draining
    fit = current and not draining
    return answer(
        Readiness("ready" if fit else "not ready", not problem, current, draining, problem), 200 if fit else 503
    )


async def accepting(request: Request) -> Response:
    """Whether pushes are taken, into the database or else the disk buffer, and we are not stopping."""
    broker = request.broker
    stats = broker.buffer.stats
    room = stats.healthy and stats.size < broker.settings.buffer_limit and stats.age < broker.settings.buffer_age_limit
    fit = not broker.draining and (broker.watch.up or room)
    return answer(
        Acceptance("accepting" if fit else "not accepting", broker.watch.up, room, broker.draining), 200 if fit else 503
    )


async def _problem(request: Request) -> str | None:
    try:
        async with asyncio.timeout(_LIMIT):
            await request.engine.database.fetch(query("engine/ping"))
    except errors.QueenError as error:
        request.broker.watch.doubt()
        return error.message
    except TimeoutError:
        return "the database did not answer in time"
    return None


async def _schema_is_current(request: Request) -> bool:
    async with request.engine.database.connection() as connection:
        return await migrate.is_current(connection)


ROUTES = [
    Route("GET", "/health", health, role="read", answer=Health, others=(503,)),
    Route("GET", "/health/live", live, role="public", answer=Liveness),
    Route("GET", "/health/accepting", accepting, role="public", answer=Acceptance, others=(503,)),
    Route("GET", "/health/ready", ready, role="public", answer=Readiness, others=(503,)),
]
