"""Leases: extend one, hand one back."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import field

from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, millis_or_none


class Extend(Wire):
    """How much longer."""

    seconds: int = 60


class Extended(Wire):
    """A lease after it was extended, its end under every name clients look for."""

    lease_id: str
    success: bool
    renewed: int
    error: str | None
    new_expires_at: str | None
    expires_at: str | None
    also_expires_at: str | None = field(name="lease_expires_at")


class Nack(Wire):
    """A lease to hand back, for how long its messages stay hidden, and whether they failed."""

    lease_id: str
    delay_ms: int = 0
    failed: bool = False


class Nacked(Wire):
    """How many partitions the lease held."""

    success: bool
    released: int
    error: str | None


DECODE_EXTEND: Final = Decoder(Extend, {"seconds": "seconds must be a whole number"})
DECODE_NACK: Final = Decoder(
    Nack, {"leaseId": "leaseId is required", "delayMs": "delayMs must be a whole number of milliseconds"}
)
_ENDED: Final = "Lease not found or already expired"


async def extend(request: Request) -> Response:
    """Let a lease live longer, on every partition it holds."""
    (lease_id,) = request.params
    body: Extend = DECODE_EXTEND(request.body)
    lease = _lease(lease_id)
    (renewal,) = await request.engine.renew([lease or UUID(int=0)], body.seconds)
    until = millis_or_none(renewal.expires_at) if renewal.renewed else None
    ok = renewal.renewed > 0
    return answer(Extended(lease_id, ok, renewal.renewed, None if ok else _ENDED, until, until, until))


async def nack(request: Request) -> Response:
    """Hand a lease back: its messages are delivered again, uncounted unless they failed."""
    body: Nack = DECODE_NACK(request.body)
    lease = _lease(body.lease_id)
    (released,) = await request.engine.release([lease or UUID(int=0)], body.delay_ms, failed=body.failed)
    return answer(Nacked(released > 0, released, None if released else _ENDED))


def _lease(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


ROUTES = [
    Route("POST", "/api/v1/lease/:leaseId/extend", extend, body=Extend, answer=Extended, own=True),
    Route("POST", "/api/v1/nack", nack, body=Nack, answer=Nacked, own=True),
]
