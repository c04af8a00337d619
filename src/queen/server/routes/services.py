"""The background services: do they run, and how did it go."""

from __future__ import annotations

from msgspec import Raw

from queen.engine.reports import Reports, ServiceReport
from queen.server.listing import fill
from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Response, Wire, answer, raw


class ServiceEntry(Wire):
    """A service, who runs it, and how its last ticks ended."""

    service: str
    holder: str
    held: bool
    expires_at: str
    interval_ms: int
    slot: int
    last_start_at: str | None
    last_success: str | None
    last_error_at: str | None
    last_error: str | None
    last_result: Raw
    late: bool


class ServiceList(Wire):
    """Every service that ever ran."""

    services: list[ServiceEntry]


def _entry(report: ServiceReport) -> ServiceEntry:
    return fill(ServiceEntry, report, last_result=raw(report.last_result or "null"))


async def services(request: Request) -> Response:
    """Each background service: interval, last success, last error, holder."""
    found = await Reports(request.engine.database).services()
    return answer(ServiceList([_entry(report) for report in found]))


ROUTES = [Route("GET", "/api/v1/services", services, role="read", answer=ServiceList)]
