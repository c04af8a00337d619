"""Every address of the dashboard."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from queen import errors
from queen.dashboard.acts import acted, asked
from queen.dashboard.dead_letters import dead_letter, dead_letters
from queen.dashboard.groups import group, groups
from queen.dashboard.live import pages
from queen.dashboard.login import login, logout
from queen.dashboard.messages import message, messages
from queen.dashboard.overview import overview
from queen.dashboard.pipelines import pipeline, pipelines
from queen.dashboard.queues import heat, queue, queues
from queen.dashboard.system import system
from queen.dashboard.traces import trace, traces
from queen.dashboard.transfer import transfer
from queen.dashboard.workflows import schedules, workflow, workflows
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Response

_MEDIA: Final = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8", "svg": b"image/svg+xml"}
_KEEP: Final = ((b"cache-control", b"public, max-age=300"), (b"x-content-type-options", b"nosniff"))
_FORMAT: Final = (Query("format", description="json for the same as JSON."),)


async def asset(request: Request) -> Response:
    """A file of the dashboard."""
    (name,) = request.params
    if name not in _assets():
        raise errors.MessageNotFound("there is no such file")
    return Response(200, _assets()[name], _MEDIA[name.rpartition(".")[2]], _KEEP)


@cache
def _assets() -> dict[str, bytes]:
    folder = files("queen.dashboard").joinpath("static")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _MEDIA}


PAGES: Final = {
    "/": overview,
    "/queues": queues,
    "/queue": queue,
    "/heat": heat,
    "/messages": messages,
    "/message": message,
    "/groups": groups,
    "/group": group,
    "/dead-letters": dead_letters,
    "/dead-letter": dead_letter,
    "/traces": traces,
    "/trace": trace,
    "/workflows": workflows,
    "/workflow": workflow,
    "/schedules": schedules,
    "/pipelines": pipelines,
    "/pipeline": pipeline,
    "/transfer": transfer,
    "/system": system,
}

ROUTES: Final = [
    *(Route("GET", path, call, role="public", own=True, listed=False, query=_FORMAT) for path, call in PAGES.items()),
    Route("GET", "/ask/:what", asked, role="public", own=True, listed=False),
    Route("POST", "/act/:what", acted, role="public", own=True, listed=False),
    Route("POST", "/login", login, role="public", own=True, listed=False),
    Route("POST", "/logout", logout, role="public", own=True, listed=False),
    Route("WS", "/ws/pages", pages, role="public", own=True, listed=False),
    Route("GET", "/static/:file", asset, role="public", listed=False),
]
