"""The API described: OpenAPI 3.1, and a page to read it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from queen.server.openapi import describe
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import HTML, Response


async def openapi(request: Request) -> Response:
    """Every route of this broker, as OpenAPI 3.1."""
    document = describe(request.broker.routes, request.broker.version)
    return Response(200, msgspec.json.encode(document))


async def page(request: Request) -> Response:
    """The description as a page."""
    return Response(200, _page(), HTML)


@cache
def _page() -> bytes:
    return files("queen.server").joinpath("openapi.html").read_bytes()


ROUTES = [
    Route("GET", "/openapi.json", openapi, role="public", listed=False),
    Route("GET", "/docs", page, role="public", listed=False),
]
