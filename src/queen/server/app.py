"""The application: pure ASGI, no layers. Finds the route, checks the caller, reads the body, answers.

To add a route: write `async def name(request: Request) -> Response` in `routes/<noun>.py`, list it in
that module's `ROUTES`, and name the module in `MODULES` below:

    async def show(request: Request) -> Response:
        \"""Show one thing.\"""
        (name,) = request.params                    # path parameters, percent-decoded
        limit = request.number("limit", 100, 1, 1000)
        body = DECODE(request.body)                 # wire.Decoder(Struct): clear 400s
        return answer(Thing(name=name))             # wire.Wire struct; payloads as wire.raw(text)

    ROUTES = [Route("GET", "/api/v1/things/:name", show, role="read", answer=Thing)]

`request.engine`, `request.settings` and `request.broker` are the parts it works with. Raise
`queen.errors`: they become the error envelope with their status. `role` is the least one needed. A
WebSocket is `Route("WS", path, call)` with `async def call(request, receive, send) -> None`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote

import structlog

from queen import errors, telemetry
from queen.server.auth import NotAllowed
from queen.server.broker import Broker
from queen.server.doorman import Doorman
from queen.server.limits import BodyTooLarge
from queen.server.noting import note_act
from queen.server.request import ClientGone, Request
from queen.server.routing import MethodNotAllowed, Receive, Route, Router, Send
from queen.server.wire import Response, refuse

LOG: Final = structlog.get_logger("queen.http")
AUDIT: Final = structlog.get_logger("queen.audit")
Headers = list[tuple[bytes, bytes]]
MODULES: Final = (
    "push",
    "pop",
    "ack",
    "lease",
    "transaction",
    "configure",
    "maintenance",
    "health",
    "metrics",
    "description",
    "queues",
    "options",
    "messages",
    "cancel",
    "dead_letters",
    "consumer_groups",
    "traces",
    "scheduled",
    "services",
    "streams",
    "pipelines",
    "resources",
    "status",
    "analytics",
    "workflows",
    "live",
)
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"authorization, content-type, x-request-id"),
    (b"access-control-max-age", b"86400"),
)
_ID_LENGTH: Final = 128


def gather() -> list[Route]:
    """The routes of all modules."""
    modules = [*(f"queen.server.routes.{name}" for name in MODULES), "queen.dashboard.routes"]
    return [route for name in modules for route in import_module(name).ROUTES]


class App:
    """The ASGI application of one broker process."""

    def __init__(self, broker: Broker, routes: Sequence[Route] | None = None) -> None:
        self.broker = broker
        self.router = Router(gather() if routes is None else routes)
        broker.routes = self.router.routes
        self._auth = broker.auth
        self._tells_all = broker.settings.log_level == "debug"
        self._prefix = os.urandom(6).hex().encode()
        self._count = itertools.count(1)
        self._origins = frozenset(origin.encode() for origin in broker.settings.cors_origins)
        self._any_origin = b"*" in self._origins or not self._origins
        self._doorman = Doorman(broker.settings)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request, one WebSocket, or the life of the process."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._converse(scope, receive, send)
        else:
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.broker.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.broker.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = self._request(scope, receive)
        try:
            response, headers = await self.respond(request)
        except ClientGone:
            return
        line, undelivered = scope.get("queen.protocol"), response.undelivered
        if line is not None and undelivered is not None and not await line.reachable():
            line.direct.close()  # what is sent now goes nowhere, but uvicorn wants to see it
            await undelivered()
            undelivered = None
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})
        if line is not None and undelivered is not None:
            line.answered(undelivered)

    def _request(self, scope: dict[str, Any], receive: Receive) -> Request:
        method, path, query = scope.get("method", "WS"), scope["raw_path"], scope["query_string"]
        return Request(self.broker, method, path, query, dict(scope["headers"]), receive)

    async def respond(self, request: Request) -> tuple[Response, Headers]:
        """The answer to a request, whatever it is, and all of its headers; raises ClientGone only."""
        headers = request.headers
        request.id = headers.get(b"x-request-id", b"")[:_ID_LENGTH] or b"%s%x" % (self._prefix, next(self._count))
        try:
            with telemetry.caller(headers):
                response = await self._call(request)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            response = self._refused(error, request)
        if self._tells_all:
            LOG.debug("answered", status=response.status, **_named(request))
        answer = [(b"x-request-id", request.id), *self._cors(headers), *response.headers]
        if response.status != 204:
            answer += ((b"content-type", response.media), (b"content-length", b"%d" % len(response.body)))
        return response, answer

    async def _call(self, request: Request) -> Response:
        method = request.method
        if method == "OPTIONS":
            return Response(204, headers=_PREFLIGHT)
        route, request.params = self.router.find(method, request.raw_path)
        if method == "HEAD" and not route.safe:
            raise MethodNotAllowed("HEAD is not allowed here: the GET takes messages", ["GET"])
        if not self._auth.open_to_all(route.role, request.raw_path):
            request.identity = await self._auth.admit(route.role, request.headers.get(b"authorization"))
            restrict(route, request)
        elif not self._auth.enabled:
            self._doorman.admit(request)
        if method == "POST" or method == "PUT":
            request.body = await self.broker.bodies.read(request)
        response: Response = await route.call(request)
        if (route.role == "admin" or method in ("PUT", "DELETE")) and method != "GET":
            AUDIT.info(
                "administrative act", subject=request.identity.subject, status=response.status, **_named(request)
            )
        if route.act is not None and request.changed and response.status < 300:
            await note_act(route, request)
        return response

    def _refused(self, error: Exception, request: Request) -> Response:
        known = error
        if isinstance(error, TimeoutError):
            known = errors.StoreUnavailable("the database did not answer in time")
        elif not isinstance(error, errors.QueenError):
            LOG.error("a defect", exc_info=error, **_named(request))
            known = errors.InternalError("an unexpected error; the log has it under the request's id")
        assert isinstance(known, errors.QueenError)
        if type(known) is errors.StoreUnavailable:
            self.broker.watch.doubt()
        self.broker.metrics.refused(known.status)
        if known.status in (401, 403):
            subject = request.identity.subject
            AUDIT.warning("turned away", status=known.status, reason=known.message, subject=subject, **_named(request))
        level = "error" if known.status == 500 else "warning" if known.status > 500 else "debug"
        getattr(LOG, level)("refused", status=known.status, code=known.code, reason=known.message, **_named(request))
        response = refuse(known)
        if isinstance(known, BodyTooLarge):
            return Response(response.status, response.body, headers=((b"connection", b"close"),))
        return response

    def _cors(self, headers: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
        if self._any_origin:
            return ((b"access-control-allow-origin", b"*"),)
        origin = headers.get(b"origin")
        if origin is None or origin not in self._origins:
            return ((b"vary", b"origin"),)
        return ((b"access-control-allow-origin", origin), (b"vary", b"origin"))

    async def _converse(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """A WebSocket: browsers cannot set a header there, so the token may come as `?token=`."""
        request = self._request(scope, receive)
        try:
            route, request.params = self.router.find("WS", request.raw_path)
            if not self._auth.open_to_all(route.role, request.raw_path):
                token = request.text("token")
                given = request.headers.get(b"authorization") or (token.encode() if token else None)
                request.identity = await self._auth.admit(route.role, given)
                restrict(route, request)
            elif not self._auth.enabled:
                self._doorman.admit(request)
        except errors.QueenError as error:
            AUDIT.warning("turned away", status=error.status, reason=error.message, path=scope["path"])
            await send({"type": "websocket.close", "code": 4000 + error.status, "reason": error.message[:100]})
            return
        await route.call(request, receive, send)


def restrict(route: Route, request: Request) -> None:
    """Refuse a token that names queues what is not about one of them."""
    identity = request.identity
    if identity.queues is None or route.own or route.role == "public":
        return
    if "queue" not in route.parameters:
        raise NotAllowed("the token is for single queues; this route is about more than one")
    identity.require(route.needs, [request.params[route.parameters.index("queue")]])


def _named(request: Request) -> dict[str, str]:
    """What tells a request from others in the log."""
    return {
        "method": request.method,
        "path": unquote(request.raw_path.decode("latin-1")),
        "request": request.id.decode("latin-1"),
    }
