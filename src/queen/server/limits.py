"""How much a request may bring, and how long it may take to bring it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from queen import errors
from queen.server.request import ClientGone
from queen.server.routing import Receive

BODY_TIME: Final = 60.0
# A refused body is read on this many times the limit, so that the caller sees the answer, not a broken connection.
_PATIENCE: Final = 4


class BodyTooLarge(errors.RequestError):
    """The body is above the limit."""

    code = "BODY_TOO_LARGE"
    status = 413


class TooSlow(errors.RequestError):
    """The body did not arrive in time."""

    code = "BODY_TOO_SLOW"
    status = 408


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """The whole body; raises BodyTooLarge above `limit` bytes."""
    try:
        async with asyncio.timeout(BODY_TIME):
            length = headers.get(b"content-length")
            if length is not None and (not length.isdigit() or int(length) > limit):
                await _discard(receive, limit)
                raise BodyTooLarge(f"the body is above the limit of {limit} bytes")
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body: bytes = message["body"]
            if not message["more_body"]:
                return body
            return await _read_on(body, receive, limit)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {BODY_TIME:g} seconds") from None


async def _read_on(first: bytes, receive: Receive, limit: int) -> bytes:
    parts, size, more = [first], len(first), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message["body"])
        size += len(parts[-1])
        more = message["more_body"]
        if size > limit:
            await _discard(receive, limit)
            raise BodyTooLarge(f"the body is above the limit of {limit} bytes")
    return b"".join(parts)


async def _discard(receive: Receive, limit: int) -> None:
    size = 0
    while size < limit * _PATIENCE:
        message = await receive()
        if message["type"] == "http.disconnect" or not message["more_body"]:
            return
        size += len(message["body"])


def require_at_most(field: str, items: Sequence[object], limit: int) -> None:
    """Refuse more items in one request than the settings allow."""
    if len(items) > limit:
        raise errors.InvalidRequest(field, f"{field} must hold at most {limit} entries, not {len(items)}")
