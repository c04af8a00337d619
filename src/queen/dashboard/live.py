"""Tells open pages when there is something new: they then fetch themselves again and change in place.

One task takes a look per tick, for all pages. A page is told at most once in `PAUSE` seconds, and less often the more
pages there are, so that drawing them takes a small share of the broker's time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

from queen import errors
from queen.dashboard import access
from queen.dashboard.look import OLD, Look
from queen.server.request import Request
from queen.server.routing import Receive, Send

PAUSE: Final = 2.0
EACH: Final = 0.1
MOST: Final = 500
_SEND_LIMIT: Final = 10.0
_ALIVE: Final = 30.0
_TRY_AGAIN_LATER: Final = 1013


async def pages(request: Request, receive: Receive, send: Send) -> None:
    """A word whenever the numbers have changed."""
    await receive()
    looker = request.broker.looker
    try:
        if request.broker.auth.enabled:
            _same_origin(request)
        await access.identify(request)
    except errors.QueenError as error:
        await send({"type": "websocket.close", "code": 4000 + error.status, "reason": error.message[:100]})
        return
    await send({"type": "websocket.accept"})
    if looker.watchers >= MOST:
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "too many pages are open already"})
        return
    looker.watchers += 1
    telling = asyncio.create_task(_tell(request, send), name="queen-pages-teller")
    gone = asyncio.create_task(_until_gone(receive), name="queen-pages-gone")
    try:
        await asyncio.wait((telling, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        looker.watchers -= 1
        for task in (telling, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await task


def _same_origin(request: Request) -> None:
    origin = request.headers.get(b"origin")
    host = request.headers.get(b"x-forwarded-host", request.headers.get(b"host", b""))
    if origin is not None and origin.rpartition(b"//")[2].lower() not in (host.lower(), request.headers.get(b"host")):
        raise access.NotOurPage("the connection comes from a page of another origin")


async def _tell(request: Request, send: Send) -> None:
    looker = request.broker.looker
    told: int | None = None  # what came between the page and this connection is told first
    told_at = time.monotonic()
    while True:
        await asyncio.sleep(max(PAUSE, looker.watchers * EACH))
        sign = _sign(await looker.latest(), up=request.broker.watch.up)
        if sign == told and time.monotonic() - told_at < _ALIVE:
            continue
        async with asyncio.timeout(_SEND_LIMIT):
            await send({"type": "websocket.send", "text": '{"event":"changed"}'})
        told, told_at = sign, time.monotonic()


def _sign(look: Look, *, up: bool) -> int:
    """A number that differs when a page may look different."""
    queues = tuple((q.id, q.waiting, q.processing, q.pushed, q.dead_letters, q.paused) for q in look.queues.values())
    groups = tuple((g.queue_id, g.consumer_group, g.consumed, g.failed, g.leases) for g in look.groups)
    rest = len(look.late), len(look.parked), look.newest_act, look.problem, look.age > OLD, up
    return hash((queues, groups, rest))


async def _until_gone(receive: Receive) -> None:
    message: dict[str, Any] = {}
    while message.get("type") != "websocket.disconnect":
        message = await receive()
