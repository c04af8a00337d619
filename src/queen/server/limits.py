"""How much a request may bring, and how long it may take to bring it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from queen import errors
from queen.server.request import ClientGone, Request
from queen.server.routing import Receive

BODY_TIME: Final = 60.0
# A refused body is read on for this many times the limit, so that the caller sees the answer, not a broken connection.
_PATIENCE: Final = 4


class BodyTooLarge(errors.RequestError):
    """The body is above the limit."""

    code = "BODY_TOO_LARGE"
    status = 413


class BodyTooSlow(errors.RequestError):
    """The body did not arrive in time."""

    code = "BODY_TOO_SLOW"
    status = 408


class BodyReader:
    """Reads bodies up to a size; a sweep breaks off those that take too long.

    One sweep for all readers, since a timer per request costs more than reading a small body.
    """

    def __init__(self, limit: int, time: float = BODY_TIME) -> None:
        self._limit = limit
        self._time = time
        self._reading: dict[asyncio.Task[Any], float] = {}
        # Kept, since asking for it is a system call each time.
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, request: Request) -> bytes:
        """The whole body; raises BodyTooLarge or BodyTooSlow."""
        if request.arrived is None:
            return await self._receive(request.headers, request.receive)
        if len(request.arrived) > self._limit:
            raise self._too_large()
        return request.arrived

    async def _receive(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        loop = self._loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._reading[task] = loop.time() + self._time
        try:
            length = headers.get(b"content-length")
            if length is not None and int(length) > self._limit:
                if b"expect" not in headers:  # who asks before it sends is told before it sends
                    await self._discard(receive)
                raise self._too_large()
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body: bytes = message["body"]
            if message["more_body"]:
                return await self._read_on(body, receive)
            if len(body) > self._limit:
                raise self._too_large()
            return body
        except asyncio.CancelledError:
            if task in self._reading or task.uncancel():
                raise
            raise BodyTooSlow(f"the body did not arrive within {self._time:g} seconds") from None
        finally:
            self._reading.pop(task, None)

    def sweep(self) -> None:
        """Break off whoever is past its time."""
        now = asyncio.get_running_loop().time()
        for task in [task for task, deadline in self._reading.items() if deadline < now]:
            del self._reading[task]
            task.cancel()

    async def _read_on(self, first: bytes, receive: Receive) -> bytes:
        parts, size, more = [first], len(first), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message["body"])
            size += len(parts[-1])
            more = message["more_body"]
            if size > self._limit:
                if more:
                    await self._discard(receive)
                raise self._too_large()
        return b"".join(parts)

    async def _discard(self, receive: Receive) -> None:
        size = 0
        while size < self._limit * _PATIENCE:
            message = await receive()
            if message["type"] == "http.disconnect" or not message["more_body"]:
                return
            size += len(message["body"])

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body is above the limit of {self._limit} bytes")


def require_at_most(field: str, items: Sequence[object], limit: int) -> None:
    """Refuse more items in one request than the settings allow."""
    if len(items) > limit:
        raise errors.InvalidRequest(field, f"{field} must hold at most {limit} entries, not {len(items)}")
