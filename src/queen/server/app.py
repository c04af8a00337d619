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
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from queen import errors
from queen.server.broker import Broker
from queen.server.request import ClientGone, Request
from queen.server.routing import Receive, Route, Router, Send
from queen.server.wire import NOTHING, Response, refuse

MODULES: Final = (
    "health",
    "push",
)


def gather() -> list[Route]:
    """The routes of all modules."""
    return [route for name in MODULES for route in import_module(f"queen.server.routes.{name}").ROUTES]


class BodyTooLarge(errors.RequestError):
    """The body is above the limit."""

    code = "BODY_TOO_LARGE"
    status = 413


class App:
    """The ASGI application of one broker process."""

    def __init__(self, broker: Broker, routes: Sequence[Route] | None = None) -> None:
        self.broker = broker
        self.router = Router(gather() if routes is None else routes)
        self._prefix = os.urandom(6).hex()
        self._count = itertools.count(1)
        self._limit = broker.settings.body_limit

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI server."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.broker.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.broker.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id") or f"{self._prefix}{next(self._count):x}".encode()
        try:
            response = await self._respond(scope, headers, request_id, receive)
        except errors.QueenError as error:
            response = refuse(error)
        except ClientGone:
            return
        await self._send(response, request_id, send)

    async def _respond(
        self, scope: dict[str, Any], headers: dict[bytes, bytes], request_id: bytes, receive: Receive
    ) -> Response:
        if scope["method"] == "OPTIONS":
            return NOTHING
        route, params = self.router.find(scope["method"], scope["raw_path"])
        request = Request(self.broker, route, params, scope, receive)
        request.headers = headers
        request.id = request_id.decode("latin-1")
        if scope["method"] in ("POST", "PUT"):
            request.body = await self._body(headers, receive)
        response: Response = await route.call(request)
        return response

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        if int(headers.get(b"content-length", b"0")) > self._limit:
            raise BodyTooLarge(f"the body is above the limit of {self._limit} bytes")
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return body
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message["body"])
            size += len(parts[-1])
            if size > self._limit:
                raise BodyTooLarge(f"the body is above the limit of {self._limit} bytes")
        return b"".join(parts)

    async def _send(self, response: Response, request_id: bytes, send: Send) -> None:
        headers = [
            (b"x-request-id", request_id),
            (b"access-control-allow-origin", b"*"),
            *response.headers,
        ]
        if response.status != 204:
            headers += [(b"content-type", response.media), (b"content-length", b"%d" % len(response.body))]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})
