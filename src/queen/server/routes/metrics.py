"""Numbers for Prometheus, and the older JSON form."""

from __future__ import annotations

import time
from typing import Any

from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Response, Wire, answer

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Snapshot(Wire):
    """A few numbers of this broker, all its workers together."""

    uptime: float
    requests: dict[str, Any]
    messages: dict[str, Any]
    database: dict[str, int]
    memory: dict[str, int]
    cpu: dict[str, int]


async def snapshot(request: Request) -> Response:
    """A few numbers of this broker as JSON."""
    totals = request.broker.gauges.totals()
    uptime = time.time() - request.broker.started_at
    requests = sum(count for count, _ in totals.values())
    messages = sum(count for _, count in totals.values())
    return answer(
        Snapshot(
            uptime=round(uptime, 3),
            requests={"total": requests, "rate": round(requests / uptime, 3)},
            messages={
                "total": messages,
                "rate": round(messages / uptime, 3),
                **{verb: count for verb, (_, count) in totals.items()},
            },
            **request.broker.gauges.summary(),
        )
    )


async def prometheus(request: Request) -> Response:
    """Every metric, for Prometheus."""
    return Response(200, await request.broker.gauges.exposition(), MEDIA.encode())


ROUTES = [
    Route("GET", "/metrics", snapshot, role="read", answer=Snapshot),
    Route("GET", "/metrics/prometheus", prometheus, role="read", media=MEDIA),
]
