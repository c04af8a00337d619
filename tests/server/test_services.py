from __future__ import annotations

import httpx2

from tests.support.wait import wait_for


def test_every_service_says_how_it_went(client: httpx2.Client) -> None:
    def succeeded() -> set[str]:
        services = client.get("/api/v1/services").json()["services"]
        return {each["service"] for each in services if each["lastSuccess"]}

    names = {"retention", "eviction", "scheduled", "leases", "stats", "deliveries", "partitions", "history", "groups"}
    wait_for(lambda: succeeded() == names)
    (stats,) = (s for s in client.get("/api/v1/services").json()["services"] if s["service"] == "stats")
    assert (stats["held"], stats["intervalMs"], stats["lastError"]) == (True, 10_000, None)
    assert set(stats) == {
        "service", "holder", "held", "expiresAt", "intervalMs", "slot", "lastStartAt", "lastSuccess", "lastErrorAt",
        "lastError", "lastResult", "late",
    }  # fmt: skip
