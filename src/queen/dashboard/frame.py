"""What every page has around it: navigation, headers, and the same content as JSON."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined

from queen import errors
from queen.dashboard import access, words
from queen.dashboard.look import OLD, Look, Looker
from queen.dashboard.problems import Problem, find_problems
from queen.server.auth import Identity, NotAllowed, NotAuthenticated, Permission
from queen.server.request import Request
from queen.server.routing import Role
from queen.server.wire import HTML, Response, Wire, answer, refuse

GUARD: Final = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept, cookie"),
)
LIVE_FOR: Final = 1.0
_FIELDS: Final = 200
_RENDERED: Final = 200


class Head(Wire, kw_only=True):
    """What the frame says about the broker."""

    version: str
    at: datetime
    healthy: bool = True
    problem: str | None = None
    subject: str | None = None
    role: str = "admin"
    age: float | None = None


@dataclass(slots=True)
class Visit:
    """One look at a page, or one act: the request, who made it, and the numbers of the moment."""

    request: Request
    identity: Identity
    look: Look
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def looker(self) -> Looker:
        """Where the numbers come from."""
        return self.request.broker.looker

    def text(self, name: str) -> str | None:
        """A parameter of the form, or of the address; an empty one counts as not given."""
        if name in self.form:
            return self.form[name] or None
        return self.request.text(name)

    def need(self, name: str) -> str:
        """A parameter that must be there; its empty text is a value."""
        value = self.form.get(name, self.request.query.get(name))
        if value is None or "\0" in value:
            raise errors.InvalidRequest(name, f"{name} must be given, without NUL")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of the form or the address."""
        given = self.text(name)
        if given is None and default is not None:
            return default
        try:
            return int(given or "")
        except ValueError:
            raise errors.InvalidRequest(name, f"{name} must be a whole number, not {given!r}") from None

    def may(self, role: Role, queue: str | None = None, permission: Permission = "admin") -> bool:
        """Tell whether the visitor may do something."""
        return access.may(self.identity, role, permission, queue)

    def require(self, role: Role, queue: str | None = None, permission: Permission = "admin") -> None:
        """Raise NotAllowed unless the visitor may do it."""
        access.require(self.identity, role, permission, queue)

    async def look_again_for(self, queue: str) -> None:
        """Have a new look taken if there is a queue of that name that the last one does not know yet."""
        if self.look.queue(queue) is not None or not self.sees(queue):
            return
        if await self.request.engine.queues.queue(queue) is not None:
            self.looker.outdate()
            self.look = await self.looker.latest()

    def sees(self, queue: str) -> bool:
        """Tell whether the visitor may know of a queue."""
        return self.identity.may("read", queue)


Page = Callable[[Visit], Awaitable[Wire]]
Serve = Callable[[Request], Awaitable[Response]]
Headers = tuple[tuple[bytes, bytes], ...]


def page(
    template: str, place: str, *, wide: bool = False
) -> Callable[[Page], Callable[[Request], Awaitable[Response]]]:
    """Make a route of a function that gathers what a page shows; `wide`: it is about more than one queue's things."""

    def wrap(gather: Page) -> Serve:
        async def serve(request: Request) -> Response:
            key = _key(request)
            if (found := _kept(request, key)) is not None:
                return found
            response = await _serve(request, template, place, gather, wide=wide)
            if key is not None and response.status == 200:
                request.broker.looker.rendered[key] = (time.monotonic(), response)
            return response

        serve.__doc__ = gather.__doc__
        return serve

    return wrap


def _key(request: Request) -> tuple[bytes, ...] | None:
    """What tells the refreshes of one page apart; None for a visit that wants the very latest."""
    if b"x-queen-live" not in request.headers:
        return None
    return request.raw_path, request.raw_query, access.token_of(request) or b"", request.headers.get(b"accept", b"")


def _kept(request: Request, key: tuple[bytes, ...] | None) -> Response | None:
    """The same page as another window got it a moment ago."""
    rendered = request.broker.looker.rendered
    if key is None or key not in rendered:
        return None
    at, response = rendered[key]
    if time.monotonic() - at < LIVE_FOR:
        return response
    if len(rendered) > _RENDERED:
        rendered.clear()
    return None


async def _serve(request: Request, template: str, place: str, gather: Page, *, wide: bool) -> Response:
    as_json = wants_json(request)
    try:
        identity = await access.identify(request)
    except NotAuthenticated as error:
        return _guarded(refuse(error)) if as_json else login_page(request, None, 401)
    visit = Visit(request, identity, await request.broker.looker.latest())
    try:
        if wide and identity.queues is not None:
            raise NotAllowed("your token is for single queues; this page is about more than one")
        data = await gather(visit)
    except errors.QueenError as error:
        if isinstance(error, errors.StoreUnavailable):
            request.broker.watch.doubt()
        return _guarded(refuse(error)) if as_json else _refused(visit, place, error)
    if as_json:
        return _guarded(answer({"head": _head(visit), "page": data}))
    return render(visit, template, place, page=data)


def wants_json(request: Request) -> bool:
    """Tell whether the JSON twin is asked for."""
    accept = request.headers.get(b"accept", b"")
    return request.text("format") == "json" or accept.startswith(b"application/json")


def _guarded(response: Response) -> Response:
    return Response(response.status, response.body, response.media, (*GUARD, *response.headers))


def _refused(visit: Visit, place: str, error: errors.QueenError) -> Response:
    return render(visit, "refused.html", place, error.status, error=error, page=None)


def _head(visit: Visit) -> Head:
    broker = visit.request.broker
    return Head(
        version=broker.version,
        at=datetime.now(UTC),
        healthy=broker.watch.up and visit.look.problem is None,
        problem=broker.watch.problem or visit.look.problem,
        subject=visit.identity.subject,
        age=visit.look.age if visit.look.now is not None and visit.look.age > OLD else None,
        role=visit.identity.role if visit.identity.queues is None else "single queues",
    )


def render(visit: Visit, template: str, place: str, status: int = 200, **values: Any) -> Response:
    """A whole page."""
    problems = problems_of(visit)
    dead = sum(queue.dead_letters for queue in visit.look.queues.values() if visit.sees(queue.name))
    text = environment().get_template(template).render(
        visit=visit,
        head=_head(visit),
        place=place,
        problems=problems,
        dead_letters=dead,
        here=_here(visit.request),
        auth=visit.request.broker.auth.enabled,
        **values,
    )  # fmt: skip
    return Response(status, text.encode(), HTML, GUARD)


def problems_of(visit: Visit) -> list[Problem]:
    """What is wrong at the moment, as far as the visitor may know."""
    found = find_problems(visit.look, visit.request.broker)
    return [each for each in found if (visit.may("read") if each.queue is None else visit.sees(each.queue))]


def fragment(template: str, status: int = 200, headers: Headers = (), **values: Any) -> Response:
    """A part of a page."""
    text = environment().get_template(template).render(**values)
    return Response(status, text.encode(), HTML, (*GUARD, *headers))


def login_page(request: Request, problem: str | None, status: int) -> Response:
    """The form that asks for a token; the address stays the one asked for."""
    text = environment().get_template("login.html").render(problem=problem, here=_here(request))
    return Response(status, text.encode(), HTML, GUARD)


def _here(request: Request) -> str:
    """The address of this page, relative: what is served below another path stays there."""
    name = request.raw_path.rpartition(b"/")[2].decode("latin-1") or "./"
    query = request.raw_query.decode("latin-1")
    return f"{name}?{query}" if query else name


def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of repeated ones all values, a line each."""
    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(request.body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS * 50)
    except (UnicodeDecodeError, ValueError):
        raise errors.InvalidRequest("form", "the form must be percent-encoded UTF-8") from None
    for name, value in pairs:
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


@cache
def environment() -> Environment:
    """The templates; everything they are given is escaped."""
    made = Environment(
        loader=PackageLoader("queen.dashboard"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= words.FILTERS
    made.globals |= {"url": words.url, "plural": words.plural}
    return made
