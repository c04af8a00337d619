"""Maintenance: pushes to the disk buffer, no pops."""

from __future__ import annotations

from typing import Final

from queen.server.request import Request
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer


class Switch(Wire):
    """On or off."""

    enabled: bool


class BufferState(Wire):
    """The disk buffer in numbers."""

    pending_count: int
    failed_count: int
    db_healthy: bool
    failed_files: dict[str, int]


class Maintenance(Wire, omit_defaults=True):
    """Which modes are on, and what waits in the disk buffer."""

    maintenance_mode: bool
    pop_maintenance_mode: bool
    buffered_messages: int
    buffer_healthy: bool
    buffer_stats: BufferState
    message: str | None = None


class PopMaintenance(Wire):
    """Whether pops are switched off."""

    pop_maintenance_mode: bool
    message: str


DECODE: Final = Decoder(Switch, {"enabled": "enabled must be true or false"})


async def show(request: Request) -> Response:
    """Which maintenance modes are on."""
    return answer(_state(request))


async def switch(request: Request) -> Response:
    """Switch push maintenance: while it is on, pushes wait in the disk buffer."""
    body: Switch = DECODE(request.body)
    await request.broker.watch.switch("push", on=body.enabled)
    word = "on: pushes wait in the disk buffer" if body.enabled else "off: the disk buffer is drained"
    return answer(_state(request, f"Push maintenance is {word}"))


async def show_pop(request: Request) -> Response:
    """Whether pops are switched off."""
    return answer(_pop_state(request))


async def switch_pop(request: Request) -> Response:
    """Switch pop maintenance: while it is on, every pop answers empty at once."""
    body: Switch = DECODE(request.body)
    await request.broker.watch.switch("pop", on=body.enabled)
    return answer(_pop_state(request))


def _state(request: Request, message: str | None = None) -> Maintenance:
    watch, stats = request.broker.watch, request.broker.buffer.stats
    return Maintenance(
        watch.modes.push,
        watch.modes.pop,
        stats.pending,
        stats.healthy,
        BufferState(stats.pending, stats.failed, watch.up, {"count": stats.failed}),
        message,
    )


def _pop_state(request: Request) -> PopMaintenance:
    on = request.broker.watch.modes.pop
    return PopMaintenance(on, f"Pop maintenance is {'on: every pop answers empty' if on else 'off'}")


ROUTES = [
    Route("GET", "/api/v1/system/maintenance", show, role="admin", answer=Maintenance),
    Route(
        "POST", "/api/v1/system/maintenance", switch, role="admin", body=Switch, answer=Maintenance, act="maintenance"
    ),
    Route("GET", "/api/v1/system/maintenance/pop", show_pop, role="admin", answer=PopMaintenance),
    Route(
        "POST",
        "/api/v1/system/maintenance/pop",
        switch_pop,
        role="admin",
        body=Switch,
        answer=PopMaintenance,
        act="maintenance",
    ),
]
