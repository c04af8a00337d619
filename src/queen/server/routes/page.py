"""GET /: the status page, and the same as JSON."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, select_autoescape

from queen import errors
from queen.engine.reading import Window
from queen.engine.reports import Reports
from queen.engine.resources import QueueReport, Resources
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import HTML, Response, Wire, answer, millis

SHOWN: Final = 200
_MEDIA: Final = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8", "svg": b"image/svg+xml"}
_GUARD: Final = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept"),
)


class PageQueue(Wire):
    """A queue on the status page."""

    name: str
    namespace: str
    task: str
    partitions: int
    pending: int
    processing: int
    dead_letters: int
    pushed_per_second: float
    acked_per_second: float
    lag_seconds: float | None
    paused: bool


class PageData(Wire, kw_only=True):
    """Everything the status page shows; `queues` is None while nobody may see or the database is away."""

    version: str
    at: str
    uptime: float
    locked: bool = False
    healthy: bool = True
    problem: str | None = None
    maintenance: bool = False
    pop_maintenance: bool = False
    buffered: int = 0
    late_services: list[str] = []  # noqa: RUF012
    pending: int = 0
    processing: int = 0
    dead_letters: int = 0
    lag_seconds: float = 0.0
    pushed_per_second: float = 0.0
    acked_per_second: float = 0.0
    queue_count: int = 0
    queues: list[PageQueue] | None = None


def _queue(report: QueueReport) -> PageQueue:
    return PageQueue(
        report.config.name,
        report.config.namespace,
        report.config.task,
        report.partitions,
        report.counts.pending,
        report.counts.processing,
        report.counts.dead_letters,
        round(report.pushed_per_second, 1),
        round(report.acked_per_second, 1),
        None if report.lag_seconds is None else round(report.lag_seconds, 1),
        report.config.paused,
    )


async def page(request: Request) -> Response:
    """The status page: queues, depth, rates, health. As JSON with `?format=json` or `Accept: application/json`."""
    data = await _data(request)
    accept = request.headers.get(b"accept", b"")
    if request.text("format") == "json" or accept.startswith(b"application/json"):
        found = answer(data)
        return Response(found.status, found.body, found.media, _GUARD)
    host = request.headers.get(b"host", b"localhost:6632").decode("latin-1")
    text = _template().get_template("status.html").render(data=data, host=host, shown=SHOWN)
    return Response(200, text.encode(), HTML, _GUARD)


async def _data(request: Request) -> PageData:
    broker = request.broker
    basic = PageData(
        version=broker.version,
        at=millis(datetime.now(UTC)),
        uptime=round(time.time() - broker.started_at, 1),
        maintenance=broker.watch.modes.push,
        pop_maintenance=broker.watch.modes.pop,
        buffered=broker.buffer.pending,
    )
    if broker.auth.enabled:
        try:
            await broker.auth.admit("read", request.headers.get(b"authorization"))
        except errors.RequestError:
            basic.locked = True
            basic.healthy = broker.watch.up
            return basic
    try:
        await _add_numbers(request, basic)
    except errors.QueenError as error:
        broker.watch.doubt()
        basic.healthy, basic.problem, basic.queues = False, error.message, None
    return basic


async def _add_numbers(request: Request, data: PageData) -> None:
    resources = Resources(request.engine.database)
    overview = await resources.overview()
    found, _ = await resources.queues(Window(limit=SHOWN))
    services = await Reports(request.engine.database).services()
    data.late_services = [each.service for each in services if each.late]
    data.pending = overview.counts.pending
    data.processing = overview.counts.processing
    data.dead_letters = overview.counts.dead_letters
    data.lag_seconds = round(overview.lag.max, 1)
    data.pushed_per_second = round(overview.pushed_per_second, 1)
    data.acked_per_second = round(overview.acked_per_second, 1)
    data.queue_count = overview.queues
    data.queues = sorted(map(_queue, found.items), key=lambda queue: (-queue.dead_letters, -queue.pending, queue.name))


async def asset(request: Request) -> Response:
    """A file of the status page."""
    (name,) = request.params
    if name not in _assets():
        raise errors.MessageNotFound("there is no such file")
    media = _MEDIA[name.rpartition(".")[2]]
    return Response(200, _assets()[name], media, ((b"cache-control", b"public, max-age=300"),))


@cache
def _template() -> Environment:
    environment = Environment(
        loader=PackageLoader("queen.server"), autoescape=select_autoescape(), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["count"] = lambda number: f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    environment.filters["span"] = _span
    return environment


def _span(seconds: float | None) -> str:
    """A stretch of time in its largest unit that fits."""
    if seconds is None or seconds < 1:
        return "now"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


@cache
def _assets() -> dict[str, bytes]:
    folder = files("queen.server").joinpath("static")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _MEDIA}


ROUTES = [
    Route("GET", "/", page, role="public", query=(Query("format", description="json for JSON."),), listed=False),
    Route("GET", "/static/:file", asset, role="public", listed=False),
]
