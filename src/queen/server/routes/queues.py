"""Queues as a whole: delete, clear, pause, resume."""

from __future__ import annotations

from queen.server.listing import name_of
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Response, Wire, answer


class QueueDeleted(Wire):
    """The queue is not there, whether or not it was."""

    deleted: bool
    queue: str
    existed: bool


class QueueCleared(Wire):
    """How many messages went."""

    success: bool
    queue: str
    cleared: int


class QueuePaused(Wire):
    """Whether the queue is paused now."""

    queue: str
    paused: bool


async def delete(request: Request) -> Response:
    """Remove a queue with everything in it."""
    (queue,) = request.params
    existed = await request.engine.queues.delete(name_of("queue", queue))
    return answer(QueueDeleted(True, queue, existed))


async def clear(request: Request) -> Response:
    """Remove all messages of a queue; its configuration and dead letters stay."""
    (queue,) = request.params
    return answer(QueueCleared(True, queue, await request.engine.queues.clear(name_of("queue", queue))))


async def pause(request: Request) -> Response:
    """Hand out nothing more from a queue; pushes go on."""
    return await _pause(request, paused=True)


async def resume(request: Request) -> Response:
    """Hand out messages of a paused queue again."""
    return await _pause(request, paused=False)


async def _pause(request: Request, *, paused: bool) -> Response:
    (queue,) = request.params
    found = await request.engine.queues.pause(name_of("queue", queue), paused=paused)
    return answer(QueuePaused(queue, found.paused))


ROUTES = [
    Route("DELETE", "/api/v1/resources/queues/:queue", delete, role="admin", answer=QueueDeleted, act="delete-queue"),
    Route(
        "DELETE", "/api/v1/queues/:queue/clear", clear, role="admin", answer=QueueCleared, others=(404,), act="clear"
    ),
    Route("POST", "/api/v1/queues/:queue/pause", pause, answer=QueuePaused, others=(404,), act="pause"),
    Route("POST", "/api/v1/queues/:queue/resume", resume, answer=QueuePaused, others=(404,), act="resume"),
]
