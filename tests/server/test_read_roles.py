"""Who may read and who may change: every route of the reading and administrating side, with each kind of token."""

from __future__ import annotations

import httpx2
import jwt
import pytest

from queen.server.routes import (
    analytics,
    consumer_groups,
    dead_letters,
    messages,
    queues,
    resources,
    scheduled,
    services,
    status,
    streams,
    traces,
)
from queen.server.routing import RANKS, Role, Route
from tests.server.conftest import SECRET
from tests.server.running import Running

MODULES = (
    analytics, consumer_groups, dead_letters, messages, queues, resources, scheduled, services, status, streams, traces,
)  # fmt: skip
ROUTES = [route for module in MODULES for route in module.ROUTES]
NAMES: dict[Role, str] = {"read": "read-only", "write": "read-write", "admin": "admin"}
ADMIN = {
    "DELETE /api/v1/resources/queues/:queue",
    "DELETE /api/v1/queues/:queue/clear",
    "DELETE /api/v1/consumer-groups/:group",
    "DELETE /api/v1/consumer-groups/:group/queues/:queue",
    "POST /api/v1/stats/refresh",
    "POST /api/v1/dlq/purge",
}


def title(route: Route) -> str:
    return f"{route.method} {route.path}"


def wanted(route: Route) -> Role:
    """What the contract asks for."""
    if title(route) in ADMIN:
        return "admin"
    return "read" if route.method == "GET" or route.path == "/streams/v1/state/get" else "write"


@pytest.mark.parametrize("route", ROUTES, ids=title)
def test_a_route_asks_for_the_role_of_the_contract(guarded: Running, route: Route) -> None:
    path = "/".join("x" if part.startswith(":") else part for part in route.path.split("/"))

    def status(token: str | None) -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return client.request(route.method, path, headers=headers).status_code

    with httpx2.Client(base_url=guarded.url, timeout=20) as client:
        assert status(None) == 401
        assert status("nonsense") == 401
        assert status(jwt.encode({"role": "admin"}, "other" * 8, algorithm="HS256")) == 401
        for role, name in NAMES.items():
            found = status(jwt.encode({"role": name}, SECRET, algorithm="HS256"))
            if RANKS[role] < RANKS[wanted(route)]:
                assert found == 403, name
            else:
                assert found not in (401, 403, 405), name
                assert found < 500, name


def test_every_admin_route_exists() -> None:
    assert {title(route) for route in ROUTES} >= ADMIN
