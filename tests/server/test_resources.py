from __future__ import annotations

import re

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, configure, pop, push

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
ZERO = {"total": 0, "pending": 0, "processing": 0, "completed": 0, "failed": 0, "deadLetter": 0}


def mixed(client: httpx2.Client, queue: str) -> None:
    """Ten messages: 3 done, 1 dead letter, 2 in a lease, 4 waiting."""
    push(client, queue, *range(10), partition="eu")
    ack_batch(client, pop(client, queue, batch=3))
    ack(client, pop(client, queue)[0], "dlq", error="boom")
    pop(client, queue, batch=2)


def test_the_overview_of_an_empty_broker(client: httpx2.Client) -> None:
    body = client.get("/api/v1/resources/overview").json()
    spread = {"avg": 0, "median": 0, "min": 0, "max": 0}
    assert re.fullmatch(TIME, body.pop("timestamp"))
    assert body.pop("statsAge") >= 0
    assert body == {
        "queues": 0, "partitions": 0, "namespaces": 0, "tasks": 0, "messages": ZERO,
        "lag": {"time": spread, "offset": spread},
        "throughput": {"ingestedPerSecond": 0, "processedPerSecond": 0},
    }  # fmt: skip


def test_the_overview_is_exact_at_once(client: httpx2.Client) -> None:
    mixed(client, "mail.send")
    body = client.get("/api/v1/resources/overview").json()
    assert body["messages"] == {
        "total": 10, "pending": 4, "processing": 2, "completed": 3, "failed": 0, "deadLetter": 1,
    }  # fmt: skip
    assert (body["queues"], body["partitions"], body["namespaces"], body["tasks"]) == (1, 1, 1, 1)
    assert body["lag"]["offset"] == {"avg": 6, "median": 6, "min": 6, "max": 6}


def test_queues_newest_first(client: httpx2.Client) -> None:
    for name in ("first", "second.task", "third"):
        push(client, name, 1)
    body = client.get("/api/v1/resources/queues").json()
    assert [queue["name"] for queue in body["queues"]] == ["third", "second.task", "first"]
    entry = body["queues"][1]
    assert re.fullmatch(UUID, entry.pop("id"))
    assert re.fullmatch(TIME, entry.pop("createdAt"))
    assert entry == {
        "name": "second.task", "namespace": "second", "task": "task", "partitions": 1, "paused": False,
        "messages": {"total": 1, "pending": 1, "processing": 0},
    }  # fmt: skip
    page = client.get("/api/v1/resources/queues", params={"limit": 2}).json()
    rest = client.get("/api/v1/resources/queues", params={"limit": 2, "cursor": page["nextCursor"]}).json()
    assert [queue["name"] for queue in rest["queues"]] == ["first"]
    assert (rest["nextCursor"], rest["total"]) == (None, 3)


def test_one_queue_with_its_partitions(api: httpx2.Client, queue: str) -> None:
    mixed(api, queue)
    push(api, queue, 1, 2, partition="us")
    body = api.get(f"/api/v1/resources/queues/{queue}").json()
    assert (body["name"], body["namespace"], body["task"]) == (queue, "", "")
    eu, us = body["partitions"]
    assert eu["stats"] == {"total": 10, "pending": 4, "processing": 2, "completed": 3, "failed": 0, "deadLetter": 1}
    assert us["stats"] == {**ZERO, "total": 2, "pending": 2}
    assert body["totals"] == {name: eu["stats"][name] + us["stats"][name] for name in ZERO}
    assert re.fullmatch(TIME, us["oldestMessage"])
    assert us["oldestMessage"] == us["newestMessage"]


def test_messages_waiting_for_another_try_show_as_failed(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryDelay=60_000)
    push(api, queue, 1, 2, 3)
    ack_batch(api, pop(api, queue, batch=2), "failed")
    totals = api.get(f"/api/v1/resources/queues/{queue}").json()["totals"]
    assert totals == {**ZERO, "total": 3, "pending": 3, "failed": 2}


@pytest.mark.parametrize("path", ["/api/v1/resources/queues/{}", "/api/v1/status/queues/{}"])
def test_an_unknown_queue_is_404(api: httpx2.Client, queue: str, path: str) -> None:
    answer = api.get(path.format(queue))
    assert (answer.status_code, answer.json()["error"]) == (404, "Queue not found")


def test_names_are_percent_decoded(api: httpx2.Client, queue: str) -> None:
    name = f"{queue}/ä b"
    push(api, name, 1)
    encoded = f"{queue}%2F%C3%A4%20b"
    assert api.get(f"/api/v1/resources/queues/{encoded}").json()["name"] == name
    assert api.get(f"/api/v1/resources/queues/{encoded}/depth").json()["pending"] == 1
    assert api.delete(f"/api/v1/resources/queues/{encoded}").json()["existed"] is True


def test_namespaces_and_tasks(client: httpx2.Client) -> None:
    push(client, "mail.send", 1, 2)
    push(client, "mail.read", 3)
    assert client.get("/api/v1/resources/namespaces").json() == {
        "namespaces": [{"namespace": "mail", "queues": 2, "partitions": 2, "messages": {"total": 3, "pending": 3}}]
    }
    assert client.get("/api/v1/resources/tasks").json() == {
        "tasks": [
            {"task": "read", "queues": 1, "partitions": 1, "messages": {"total": 1, "pending": 1}},
            {"task": "send", "queues": 1, "partitions": 1, "messages": {"total": 2, "pending": 2}},
        ]
    }


def test_partitions_of_a_queue(api: httpx2.Client, queue: str) -> None:
    for name in "abc":
        push(api, queue, 1, partition=name)
    body = api.get("/api/v1/resources/partitions", params={"queue": queue, "limit": 2}).json()
    assert [(entry["queue"], entry["name"]) for entry in body["partitions"]] == [(queue, "a"), (queue, "b")]
    rest = api.get("/api/v1/resources/partitions", params={"queue": queue, "cursor": body["nextCursor"]}).json()
    assert [entry["name"] for entry in rest["partitions"]] == ["c"]


def test_the_depth_of_a_queue_for_a_group(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3, partition="a")
    push(api, queue, 4, partition="b")
    pop(api, queue, "a", consumerGroup="g", subscriptionMode="all", batch=1)
    ack_batch(api, pop(api, queue, "b", consumerGroup="g"), group="g")
    body = api.get(f"/api/v1/resources/queues/{queue}/depth", params={"group": "g"}).json()
    assert body == {
        "queue": queue, "group": "g", "pending": 3, "partitionsPending": 1, "conflation": False,
        "effectivePending": 3, "partitions": [{"partition": "a", "pending": 3}],
    }  # fmt: skip
    everything = api.get(f"/api/v1/resources/queues/{queue}/depth").json()
    assert (everything["group"], everything["pending"]) == ("__QUEUE_MODE__", 4)
    assert api.get(f"/api/v1/resources/queues/{queue}-no/depth").status_code == 404


@pytest.mark.parametrize(
    ("query", "code"),
    [("limit=0", "INVALID_LIMIT"), ("limit=1001", "INVALID_LIMIT"), ("offset=-1", "INVALID_OFFSET"),
     ("cursor=nonsense", "INVALID_CURSOR"), ("search=%00", "INVALID_SEARCH")],
)  # fmt: skip
def test_what_a_list_cannot_do_is_a_clear_400(api: httpx2.Client, query: str, code: str) -> None:
    answer = api.get(f"/api/v1/resources/queues?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_number_that_does_not_parse_falls_back(api: httpx2.Client) -> None:
    assert api.get("/api/v1/resources/queues?limit=many&offset=x").status_code == 200
