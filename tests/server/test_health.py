from __future__ import annotations

import httpx2

from queen import __version__


def test_health_answers_as_clients_expect(api: httpx2.Client) -> None:
    answer = api.get("/health")
    assert answer.status_code == 200
    body = answer.json()
    assert body.pop("uptime") > 0
    assert body == {
        "status": "healthy",
        "database": "connected",
        "server": "queen",
        "worker_id": 0,
        "version": __version__,
    }


def test_live_and_ready_are_apart(api: httpx2.Client) -> None:
    assert api.get("/health/live").json()["status"] == "alive"
    assert api.get("/health/ready").json() == {
        "status": "ready",
        "database": True,
        "schemaCurrent": True,
        "draining": False,
    }


def test_head_has_no_body(api: httpx2.Client) -> None:
    answer = api.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")
