"""WS /ws/dashboard: queues that change, throughput, new queues, dead letters, as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from queen.server.live import WATCHERS, Change, Look, Rate, compare
from queen.server.request import Request
from queen.server.routing import Receive, Route, Send
from queen.server.wire import Wire, millis

_SEND_LIMIT: Final = 30.0
_QUIET: Final = 15
_TRY_AGAIN_LATER: Final = 1013
# Of more queues a browser could make nothing; the rest is on the pages.
_QUEUES: Final = 1000


class LiveQueue(Wire):
    """A queue as it is now."""

    name: str
    pending: int
    processing: int
    dead_letters: int
    paused: bool
    pushed_per_second: float
    popped_per_second: float
    acked_per_second: float


class LiveThroughput(Wire):
    """All queues together."""

    pushed_per_second: float
    popped_per_second: float
    acked_per_second: float


class LiveDeadLetters(Wire):
    """Dead letters that were added to a queue."""

    queue: str
    added: int
    total: int


class LiveEvent(Wire):
    """A snapshot at first, then updates: only the queues that changed."""

    type: str
    at: str
    database: bool
    throughput: LiveThroughput
    queues: list[LiveQueue]
    new_queues: list[str]
    removed_queues: list[str]
    dead_letters: list[LiveDeadLetters]


def _throughput(rate: Rate) -> LiveThroughput:
    return LiveThroughput(rate.pushed, rate.popped, rate.acked)


def _queues(look: Look, names: Iterable[str]) -> list[LiveQueue]:
    found = []
    for name in list(names)[:_QUEUES]:
        queue, rate = look.queues[name], look.rates.get(name, Rate())
        found.append(
            LiveQueue(
                name,
                queue.waiting - queue.processing,
                queue.processing,
                queue.dead_letters,
                queue.paused,
                rate.pushed,
                rate.popped,
                rate.acked,
            )
        )
    return found


def _event(kind: str, look: Look, change: Change) -> bytes:
    at = millis(datetime.fromtimestamp(look.at, UTC))
    dead = [LiveDeadLetters(name, n, look.queues[name].dead_letters) for name, n in change.dead_letters.items()]
    return msgspec.json.encode(
        LiveEvent(
            kind,
            at,
            look.problem is None,
            _throughput(look.total),
            _queues(look, change.changed),
            change.new[:_QUEUES],
            change.gone[:_QUEUES],
            dead[:_QUEUES],
        )
    )


async def dashboard(request: Request, receive: Receive, send: Send) -> None:
    """Live events, gathered; a slow browser skips to the latest."""
    await receive()
    live = request.broker.live
    await send({"type": "websocket.accept"})
    if live.watchers >= WATCHERS:
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "too many watch already"})
        return
    async with live:
        telling = asyncio.create_task(_tell(request, send), name="queen-live-teller")
        gone = asyncio.create_task(_until_gone(receive), name="queen-live-gone")
        await asyncio.wait((telling, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (telling, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await task


async def _tell(request: Request, send: Send) -> None:
    live = request.broker.live
    told = await live.after(None)
    await _send(send, _event("snapshot", told, Change(list(told.queues), [], [], {})))
    seen, quiet = told, 0
    while True:
        seen = await live.after(seen)
        change = compare(told, seen)
        quiet += 1
        same = seen.total == told.total and seen.problem == told.problem
        if same and not (change.changed or change.gone) and quiet < _QUIET:
            continue
        await _send(send, _event("update", seen, change))
        told, quiet = seen, 0


async def _send(send: Send, event: bytes) -> None:
    async with asyncio.timeout(_SEND_LIMIT):
        await send({"type": "websocket.send", "text": event.decode()})


async def _until_gone(receive: Receive) -> None:
    message: dict[str, Any] = {}
    while message.get("type") != "websocket.disconnect":
        message = await receive()


ROUTES = [Route("WS", "/ws/dashboard", dashboard, role="read")]
