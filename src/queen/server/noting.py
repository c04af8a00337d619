"""Administrative acts through the API, written into the audit log as those of the dashboard are."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import structlog

from queen import errors
from queen.engine.audit import Noted, note
from queen.server.request import Request
from queen.server.routing import Route

LOG: Final = structlog.get_logger("queen.audit")
_TARGETS: Final = ("group", "partition", "transactionId", "id")
# What people wrote may be secret, and the log keeps it open.
_LEFT_OUT: Final = ("payload", "data", "input")
_LONGEST: Final = 200


async def note_act(route: Route, request: Request) -> None:
    """Write down what a request did. It is done already: when this fails, only the log of the process has it."""
    assert route.act is not None
    given = {**_body(request.body), **dict(zip(route.parameters, request.params, strict=True))}
    group = given.get("group", given.get("consumerGroup"))
    target = next((str(given[name]) for name in _TARGETS if given.get(name)), group)
    auth, identity = request.broker.auth, request.identity
    subject = identity.subject or (identity.role if auth.enabled else "anyone")
    queue = given.get("queue")
    noted = Noted(
        act=route.act,
        text=f"{route.summary.removesuffix('.')} (API)",
        queue=queue if isinstance(queue, str) else None,
        target=None if target is None else str(target)[:_LONGEST],
        detail=given,
    )
    try:
        await note(request.engine.database, subject, noted)
    except errors.QueenError as error:
        LOG.warning("the audit log could not be written", act=route.act, reason=error.message)
    request.broker.looker.outdate()


def _body(text: bytes) -> dict[str, Any]:
    """The single values of a body, as far as they may be kept."""
    try:
        found = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        return {}
    if not isinstance(found, dict):
        return {}
    options = found.get("options")
    single = {**found, **(options if isinstance(options, dict) else {})}
    return {
        name: value[:_LONGEST] if isinstance(value, str) else value
        for name, value in single.items()
        if name not in _LEFT_OUT and isinstance(value, str | int | float)
    }
