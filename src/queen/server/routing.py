"""Routes as data, and the tree that finds one.

    Route("GET", "/api/v1/pop/queue/:queue", pop, role="write", answer=PopAnswer)

A segment that begins with a colon is a parameter: it matches any one segment, the empty one too, and
reaches the callee percent-decoded. A literal segment wins over a parameter, whatever their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes

from queen import errors

Role = Literal["public", "read", "write", "admin"]
Method = Literal["GET", "POST", "PUT", "DELETE", "WS"]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
RANKS: Final[Mapping[Role, int]] = {"public": 0, "read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the query string, for the description of the API."""

    name: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    description: str = ""
    default: Any = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path.

    `body` and `answer` are the types of the JSON in and out, `query` the parameters: they describe the
    route in `/openapi.json`. `status` is what it answers when all went well, `empty` a second, bodiless
    status it may answer with, `others` the statuses of refusals worth naming. A GET that changes something is not
    `safe`: it is refused to HEAD. Tokens that name queues may use routes with `:queue` in their path if they allow
    `permission` on it, and those that look at the queues of a request by their `own`; no others. `act` names what a
    person does by hand with it: it goes into the audit log.
    """

    method: Method
    path: str
    call: Callable[..., Awaitable[Any]]
    role: Role = "write"
    body: Any = None
    answer: Any = None
    query: Sequence[Query] = ()
    status: int = 200
    empty: int | None = None
    others: Sequence[int] = ()
    media: str = "application/json"
    listed: bool = True
    safe: bool = True
    own: bool = False
    permission: Literal["push", "pop", "admin", "read"] | None = None
    act: str | None = None

    @property
    def needs(self) -> Literal["push", "pop", "admin", "read"]:
        """What a token that names queues must allow on the queue of the path."""
        return self.permission or ("read" if self.method == "GET" else "admin")

    @property
    def summary(self) -> str:
        """The first line of what the callee says about itself."""
        return (self.call.__doc__ or self.path).strip().splitlines()[0]

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in order."""
        return [part[1:] for part in self.path.split("/") if part.startswith(":")]


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    routes: dict[str, Route] = field(default_factory=dict)


class NotFound(errors.RequestError):
    """There is no such route."""

    code = "ROUTE_NOT_FOUND"
    status = 404


class MethodNotAllowed(errors.RequestError):
    """The path exists, but not with this method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405

    def __init__(self, message: str, allowed: Iterable[str]) -> None:
        super().__init__(message)
        self.allowed = ", ".join(sorted(allowed))


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        self._root = _Node()
        self._plain: dict[tuple[str, bytes], Route] = {}
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for part in route.path.split("/")[1:]:
            if part.startswith(":"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(part, _Node())
        assert route.method not in node.routes, f"{route.method} {route.path} is there twice"
        node.routes[route.method] = route
        if not route.parameters:
            self._plain[route.method, route.path.encode()] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, tuple[str, ...]]:
        """The route and its decoded parameters; raises NotFound or MethodNotAllowed."""
        method = "GET" if method == "HEAD" else method
        plain = self._plain.get((method, raw_path))
        if plain is not None:
            return plain, ()
        segments = [_decode(part) for part in raw_path.split(b"/")[1:]]
        allowed: set[str] = set()
        found = _walk(self._root, segments, 0, method, (), allowed)
        if found is not None:
            return found
        if allowed - {"WS"}:
            raise MethodNotAllowed(f"{method} is not allowed here; allowed: {', '.join(sorted(allowed))}", allowed)
        raise NotFound("there is nothing at this path; /openapi.json lists what there is")


def _walk(
    node: _Node, segments: list[str], at: int, method: str, values: tuple[str, ...], allowed: set[str]
) -> tuple[Route, tuple[str, ...]] | None:
    if at == len(segments):
        allowed.update(node.routes)
        route = node.routes.get(method)
        return (route, values) if route is not None else None
    literal = node.literals.get(segments[at])
    if literal is not None and (found := _walk(literal, segments, at + 1, method, values, allowed)):
        return found
    if node.parameter is None:
        return None
    return _walk(node.parameter, segments, at + 1, method, (*values, segments[at]), allowed)


def _decode(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise errors.InvalidRequest("path", "the path must be percent-encoded UTF-8") from None
