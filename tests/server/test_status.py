from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, configure, pop, push

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
Json = dict[str, Any]


def mixed(client: httpx2.Client, queue: str) -> None:
    """Ten messages: 3 done, 1 dead letter, 2 in a lease, 4 waiting; counted."""
    push(client, queue, *range(10), partition="eu")
    ack_batch(client, pop(client, queue, batch=3))
    ack(client, pop(client, queue)[0], "dlq", error="boom 17")
    pop(client, queue, batch=2)
    assert client.post("/api/v1/stats/refresh").json()["success"]


def test_how_it_goes(client: httpx2.Client) -> None:
    push(client, "other", 1)
    mixed(client, "mail.send")
    body = client.get("/api/v1/status").json()
    assert all(re.fullmatch(TIME, body["timeRange"][name]) for name in ("from", "to"))
    assert (body["bucketMinutes"], body["pointCount"]) == (1, len(body["throughput"]))
    assert sum(point["ingested"] for point in body["throughput"]) == 11
    assert sum(point["processed"] for point in body["throughput"]) == 3
    assert sum(point["popMessages"] for point in body["throughput"]) == 6
    assert set(body["throughput"][0]) == {
        "timestamp", "ingested", "processed", "popMessages", "failed", "ingestedPerSecond", "processedPerSecond",
        "popPerSecond", "avgLagMs", "maxLagMs",
    }  # fmt: skip
    assert [queue["name"] for queue in body["queues"]] == ["mail.send", "other"]
    messages = body["messages"]
    assert messages.pop("requests")["push"] == 2
    assert messages.pop("batchEfficiency") == {"push": 5.5, "pop": 2.0, "ack": 2.0}
    assert messages == {
        "total": 11, "pending": 5, "processing": 2, "completed": 3, "failed": 0, "deadLetter": 1,
    }  # fmt: skip
    assert body["leases"] == {"active": 1, "partitionsWithLeases": 1, "totalBatchSize": 2, "totalAcked": 0}
    assert body["deadLetterQueue"] == {
        "totalMessages": 1, "affectedPartitions": 1, "topErrors": [{"error": "boom <n>", "count": 1}],
    }  # fmt: skip
    assert body["errors"] == {"dbErrors": 0, "ackFailed": 1, "dlqMessages": 1}
    assert len(body["workers"]) == 1
    assert body["statsAge"] >= 0


def test_the_status_of_some_queues(client: httpx2.Client) -> None:
    mixed(client, "mail.send")
    push(client, "other", 1)
    for query in ({"queue": "mail.send"}, {"namespace": "mail"}, {"task": "send"}):
        body = client.get("/api/v1/status", params=query).json()
        assert [queue["name"] for queue in body["queues"]] == ["mail.send"]
        assert (body["messages"]["total"], body["leases"]["active"]) == (10, 1)
    body = client.get("/api/v1/status", params={"queue": "nowhere"}).json()
    assert (body["queues"], body["messages"]["total"], body["throughput"]) == ([], 0, [])


@pytest.mark.parametrize(
    "query",
    [{"from": "soon"}, {"to": "x"}, {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
     {"from": "1990-01-01T00:00:00Z"}, {"to": "0001-01-01T00:00:00Z"}],
)  # fmt: skip
def test_a_span_must_make_sense(api: httpx2.Client, query: dict[str, str]) -> None:
    for path in ("/api/v1/status", "/api/v1/status/analytics", "/api/v1/analytics/queue-ops"):
        assert api.get(path, params=query).status_code == 400, path


def test_queues_with_pagination(client: httpx2.Client) -> None:
    for name in ("a.x", "b.x", "c.y"):
        push(client, name, 1)
    body = client.get("/api/v1/status/queues", params={"limit": 2}).json()
    assert [queue["name"] for queue in body["queues"]] == ["c.y", "b.x"]
    assert body["pagination"] == {"limit": 2, "offset": 0, "total": 3}
    rest = client.get("/api/v1/status/queues", params={"limit": 2, "offset": 2}).json()
    assert [queue["name"] for queue in rest["queues"]] == ["a.x"]
    assert len(client.get("/api/v1/status/queues", params={"task": "x"}).json()["queues"]) == 2


def test_one_queue_in_full(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, leaseTime=60, retryLimit=5, maxSize=50, priority=7)
    mixed(api, queue)
    body = api.get(f"/api/v1/status/queues/{queue}").json()
    assert (body["queue"]["name"], body["queue"]["priority"]) == (queue, 7)
    assert body["queue"]["config"] == {
        "leaseTime": 60, "retryLimit": 5, "retryDelay": 0, "ttl": 3600, "maxQueueSize": 50, "deadLetterQueue": False,
    }  # fmt: skip
    _, eu = body["partitions"]
    assert (eu["name"], eu["cursor"]) == ("eu", {"totalConsumed": 3, "batchesConsumed": 2})
    assert eu["messages"] == eu["stats"] == body["totals"]["messages"]
    assert eu["stats"]["deadLetter"] == 1
    assert re.fullmatch(TIME, eu["lastActivity"])


def test_messages_over_time(client: httpx2.Client) -> None:
    mixed(client, "q")
    for interval in ("minute", "hour", "day"):
        body = client.get("/api/v1/status/analytics", params={"interval": interval}).json()
        assert sum(point["messages"] for point in body["dataPoints"]) == 10
        assert body["interval"] == interval
        assert re.fullmatch(TIME, body["from"])
        assert re.fullmatch(TIME, body["to"])
    assert client.get("/api/v1/status/analytics", params={"queue": "no"}).json()["dataPoints"] == []
    assert client.get("/api/v1/status/analytics", params={"interval": "year"}).status_code == 400


def test_the_disk_buffer(client: httpx2.Client) -> None:
    empty = {"pending": 0, "failed": 0, "dbHealthy": True, "worker": 0}
    assert client.get("/api/v1/status/buffers").json() == empty
    client.post("/api/v1/system/maintenance", json={"enabled": True})
    push(client, "q", 1, 2)
    assert client.get("/api/v1/status/buffers").json() == {**empty, "pending": 2}


def test_worker_metrics(client: httpx2.Client) -> None:
    mixed(client, "q")
    body = client.get("/api/v1/analytics/worker-metrics").json()
    assert set(body) == {"timeRange", "bucketMinutes", "pointCount", "timeSeries", "workers", "queues", "summary"}
    assert (body["summary"]["ingested"], body["summary"]["processed"], body["summary"]["failed"]) == (10, 3, 1)
    assert [queue["name"] for queue in body["queues"]] == ["q"]
    (worker,) = body["workers"]
    assert worker["poolSize"] >= worker["poolIdle"] >= 0


def test_system_metrics(client: httpx2.Client) -> None:
    body = client.get("/api/v1/analytics/system-metrics").json()
    (replica,) = body["replicas"]
    assert body["pointCount"] == len(replica["timeSeries"]) >= 2
    point = replica["timeSeries"][-1]
    assert point["memory"]["rss"] > 10_000_000
    assert point["database"]["poolSize"] == point["database"]["poolIdle"] + point["database"]["poolActive"]


def test_postgres_stats(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    body = api.get("/api/v1/analytics/postgres-stats").json()
    assert body["database"]["size"] > 0
    assert {"messages", "partition_consumers"} <= {table["name"] for table in body["tables"]}
    assert body["oldestTransactionSeconds"] >= 0
    assert "databaseHitRatio" in body["cache"]


def test_queues_over_time(client: httpx2.Client) -> None:
    mixed(client, "a")
    push(client, "b", 1)
    client.post("/api/v1/stats/refresh")
    ops = client.get("/api/v1/analytics/queue-ops").json()["queues"]
    assert {each["queue"]: sum(point["push"] for point in each["points"]) for each in ops} == {"a": 10, "b": 1}
    lag = client.get("/api/v1/analytics/queue-lag", params={"queue": "a"}).json()["queues"]
    assert [(each["queue"], each["points"][-1]["pending"]) for each in lag] == [("a", 6)]
    assert client.get("/api/v1/analytics/queue-parked-replicas").json()["total"] == 0
    removed = client.get("/api/v1/analytics/retention").json()
    assert (removed["points"], removed["totals"]) == ([], {})


def test_refreshing_needs_no_body(client: httpx2.Client) -> None:
    push(client, "q", 1)
    assert client.post("/api/v1/stats/refresh").json() == {
        "success": True, "queues": 1, "message": "Statistics refreshed",
    }  # fmt: skip
