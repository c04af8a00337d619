"""Acts: what a page can change. Each says what it did, is noted in the audit log, and offers undo where it can."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from queen import errors
from queen.dashboard import access, frame
from queen.dashboard.frame import Visit
from queen.engine.audit import Noted, note
from queen.server.auth import Permission
from queen.server.request import Request
from queen.server.routing import NotFound, Role
from queen.server.wire import Response, answer, refuse

AUDIT: Final = structlog.get_logger("queen.audit")
_DONE: Final = ((b"hx-retarget", b"#told"), (b"hx-reswap", b"innerHTML"), (b"hx-trigger", b"queen:done"))


@dataclass(frozen=True, slots=True)
class Undo:
    """The act that takes another back."""

    act: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """What an act did. `page` is where to look next; `part` a fragment to show in place of the form, not a notice."""

    text: str
    queue: str | None = None
    target: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    undo: Undo | None = None
    page: str | None = None
    part: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    noted: bool = True


Act = Callable[[Visit], Awaitable[Done]]
Ask = Callable[[Visit], Awaitable[dict[str, Any]]]
ACTS: Final[dict[str, tuple[Act, Role, Permission]]] = {}
ASKS: Final[dict[str, tuple[Ask, str]]] = {}


def act(name: str, role: Role = "write", permission: Permission = "admin") -> Callable[[Act], Act]:
    """Name an act, and say what it takes to be allowed it: on the queue the form names, or on all."""

    def wrap(work: Act) -> Act:
        ACTS[name] = work, role, permission
        return work

    return wrap


def ask(name: str, template: str) -> Callable[[Ask], Ask]:
    """Name a dialog: it says with numbers what an act will do before it does."""

    def wrap(work: Ask) -> Ask:
        ASKS[name] = work, template
        return work

    return wrap


async def asked(request: Request) -> Response:
    """A dialog of the dashboard."""
    (name,) = request.params
    if name not in ASKS:
        raise NotFound("there is no such dialog")
    work, template = ASKS[name]
    try:
        visit = Visit(request, await access.identify(request), await request.broker.looker.latest())
        if not all(visit.sees(queue) for queue in [visit.text("queue")] if queue is not None):
            visit.require("read", visit.text("queue"), "read")
        return frame.fragment(template, **await work(visit), visit=visit)
    except errors.QueenError as error:
        return frame.fragment("ask_refused.html", error=error)


async def acted(request: Request) -> Response:
    """An act of the dashboard."""
    (name,) = request.params
    access.require_own_page(request)
    if name not in ACTS:
        raise NotFound("there is no such act")
    work, role, permission = ACTS[name]
    as_json = frame.wants_json(request)
    try:
        visit = Visit(request, await access.identify(request), await request.broker.looker.latest(), _form(request))
        visit.require(role, visit.form.get("queue"), permission)
        done = await work(visit)
        if done.noted:
            await _note(visit, name, done)
    except errors.QueenError as error:
        if as_json:
            return refuse(error)
        return frame.fragment("error.html", error.status, error=error)
    visit.looker.outdate()
    if as_json:
        return answer({"done": done.text, "queue": done.queue, "target": done.target, "detail": done.detail})
    if done.part is not None:
        return frame.fragment(done.part, **done.values, visit=visit)
    return frame.fragment("told.html", headers=_DONE, done=done)


def _form(request: Request) -> dict[str, str]:
    return frame.read_form(request)


async def _note(visit: Visit, name: str, done: Done) -> None:
    subject = visit.identity.subject or ("anyone" if not visit.request.broker.auth.enabled else visit.identity.role)
    facts = {"queue": done.queue, "target": done.target, "detail": done.detail}
    AUDIT.info("administrative act", subject=subject, act=name, **facts)
    noted = Noted(act=name, text=done.text, queue=done.queue, target=done.target, detail=done.detail)
    await note(visit.request.engine.database, subject, noted)
