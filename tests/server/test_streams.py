from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.server.calls import configure, data, pop, push

Json = dict[str, Any]
GROUP = "streams.test"


def register(api: httpx2.Client, name: str, config_hash: str = "h1", **more: Any) -> httpx2.Response:
    body = {"name": name, "source_queue": name, "sink_queue": f"{name}-out", "config_hash": config_hash, **more}
    return api.post("/streams/v1/queries", json=body)


def cycle(api: httpx2.Client, **body: Any) -> Json:
    answer = api.post("/streams/v1/cycle", json=body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def rows(api: httpx2.Client, **body: Any) -> list[Json]:
    answer = api.post("/streams/v1/state/get", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["success"] is True
    found: list[Json] = answer.json()["rows"]
    return found


@pytest.fixture
def query_id(api: httpx2.Client, queue: str) -> str:
    return str(register(api, queue).json()["query_id"])


def test_registering(api: httpx2.Client, queue: str) -> None:
    first = register(api, queue)
    body = first.json()
    query_id = body["query_id"]
    assert (first.status_code, body) == (
        200,
        {"success": True, "query_id": query_id, "name": queue, "config_hash": "h1", "fresh": True, "reset": False},
    )
    again = register(api, queue, reset=True).json()
    assert (again["query_id"], again["fresh"], again["reset"]) == (query_id, False, False)
    refused = register(api, queue, "h2")
    assert refused.status_code == 409
    assert re.search("config_hash mismatch", refused.json()["error"], re.IGNORECASE)
    assert (refused.json()["success"], refused.json()["query_id"], refused.json()["name"]) == (False, query_id, queue)
    changed = register(api, queue, "h2", reset=True).json()
    assert (changed["query_id"], changed["reset"], changed["config_hash"]) == (query_id, True, "h2")


@pytest.mark.parametrize("field", ["name", "source_queue", "config_hash"])
@pytest.mark.parametrize("value", ["", None, 3])
def test_registering_needs_three_texts(api: httpx2.Client, field: str, value: Any) -> None:
    body = {"name": "n", "source_queue": "s", "config_hash": "h", field: value}
    answer = api.post("/streams/v1/queries", json=body)
    assert (answer.status_code, field in answer.json()["error"]) == (400, True)
    assert api.post("/streams/v1/queries").status_code == 400


def test_a_cycle_is_one_commit(api: httpx2.Client, queue: str, query_id: str) -> None:
    push(api, queue, 1, 2, 3)
    messages = pop(api, queue, batch=10, consumerGroup=GROUP, subscriptionMode="all")
    body = cycle(
        api,
        query_id=query_id,
        partition_id=messages[0]["partitionId"],
        consumer_group=GROUP,
        state_ops=[
            {"type": "upsert", "key": "k\u001f1", "value": {"sum": 6}},
            {"type": "delete", "key": "old"},
        ],
        push_items=[{"queue": f"{queue}-out", "partition": "eu", "payload": {"n": n}} for n in range(3)],
        ack={
            "transactionId": messages[-1]["transactionId"],
            "leaseId": messages[-1]["leaseId"],
            "status": "completed",
            "count": 3,
        },
        release_lease=True,
    )
    results = body.pop("push_results")
    assert [(each["index"], each["status"], each["queueName"]) for each in results] == [
        (n, "queued", f"{queue}-out") for n in range(3)
    ]
    ids = [each["message_id"] for each in results]
    assert ids == sorted(ids)
    assert body == {
        "success": True, "query_id": query_id, "partition_id": messages[0]["partitionId"], "queueName": queue,
        "state_ops_applied": 2,
        "ack_result": {"success": True, "count": 3, "lease_released": True, "dlq": False},
    }  # fmt: skip
    assert data(pop(api, f"{queue}-out", batch=9)) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert pop(api, queue, consumerGroup=GROUP) == []
    (row,) = rows(api, query_id=query_id, partition_id=messages[0]["partitionId"], keys=[])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row.pop("updated_at"))
    assert row == {"key": "k\u001f1", "value": {"sum": 6}}


def test_an_idle_flush(api: httpx2.Client, queue: str, query_id: str) -> None:
    (pushed,) = push(api, queue, 1)
    body = cycle(
        api,
        query_id=query_id,
        partition_id=pushed["partition_id"],
        consumer_group=GROUP,
        ack=None,
        push_items=[{"queue": f"{queue}-out", "payload": 1}],
    )
    assert (body["success"], "ack_result" in body) == (True, False)


def test_output_is_stored_once(api: httpx2.Client, queue: str, query_id: str) -> None:
    (pushed,) = push(api, queue, 1)
    items = [{"queue": f"{queue}-out", "payload": 1, "transactionId": "same"}]
    statuses = [
        cycle(api, query_id=query_id, partition_id=pushed["partition_id"], push_items=items)["push_results"][0][
            "status"
        ]
        for _ in range(2)
    ]
    assert statuses == ["queued", "duplicate"]


@pytest.mark.parametrize(
    ("change", "error"),
    [({"leaseId": "00000000-0000-7000-8000-000000000000"}, "Invalid or expired lease"),
     ({"leaseId": "no uuid"}, "Invalid or expired lease"),
     ({"transactionId": "nope"}, "Message not found"),
     ({"status": "odd"}, "ack status"), ({"status": "retry"}, "ack status")],
)  # fmt: skip
def test_a_bad_ack_fails_the_cycle(api: httpx2.Client, queue: str, query_id: str, change: Json, error: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue, consumerGroup=GROUP, subscriptionMode="all")
    ack = {"transactionId": message["transactionId"], "leaseId": message["leaseId"], "status": "completed", **change}
    common = {"query_id": query_id, "partition_id": message["partitionId"], "consumer_group": GROUP}
    body = cycle(
        api,
        **common,
        ack=ack,
        state_ops=[{"type": "upsert", "key": "k", "value": 1}],
        push_items=[{"queue": f"{queue}-out", "payload": 1}],
    )
    assert body["success"] is False
    assert error in body["error"]
    assert rows(api, query_id=query_id, partition_id=message["partitionId"]) == []
    assert pop(api, f"{queue}-out") == []
    good = {"transactionId": message["transactionId"], "leaseId": message["leaseId"]}
    assert cycle(api, **common, ack=good)["success"] is True


def test_what_else_fails_a_cycle(api: httpx2.Client, queue: str, query_id: str) -> None:
    configure(api, f"{queue}-full", maxSize=1)
    push(api, f"{queue}-full", 1)
    (pushed,) = push(api, queue, 1)
    partition = pushed["partition_id"]
    for body in (
        {"query_id": str(uuid4()), "partition_id": partition},
        {"query_id": "no uuid", "partition_id": partition},
        {"query_id": query_id, "partition_id": "51e00000-0000-8001-8000-0000000fffff"},
        {"query_id": query_id, "partition_id": "no id"},
        {"query_id": query_id, "partition_id": partition, "state_ops": [{"type": "odd", "key": "k"}]},
        {"query_id": query_id, "partition_id": partition, "push_items": [{"queue": f"{queue}-full", "payload": 1}]},
    ):
        answer = cycle(api, **body)
        assert (answer["success"], bool(answer["error"])) == (False, True), body


@pytest.mark.parametrize(
    "body",
    [None, {}, {"query_id": "q"}, {"partition_id": "p"}, {"query_id": "", "partition_id": "p"},
     {"query_id": "q", "partition_id": ""}],
)  # fmt: skip
def test_ids_must_be_there(api: httpx2.Client, body: Json | None) -> None:
    for path in ("/streams/v1/cycle", "/streams/v1/state/get"):
        assert api.post(path, json=body).status_code == 400


def test_a_kept_lease_holds_the_rest_back_and_a_dropped_one_does_not(
    api: httpx2.Client, queue: str, query_id: str
) -> None:
    configure(api, queue, leaseTime=1)
    push(api, queue, 1, 2, 3)
    messages = pop(api, queue, batch=3, consumerGroup=GROUP, subscriptionMode="all")
    common = {"query_id": query_id, "partition_id": messages[0]["partitionId"], "consumer_group": GROUP}
    first = {"transactionId": messages[0]["transactionId"], "leaseId": messages[0]["leaseId"]}
    body = cycle(api, **common, ack=first, release_lease=False)
    assert body["ack_result"]["lease_released"] is False
    assert pop(api, queue, batch=3, consumerGroup=GROUP) == []
    again = pop(api, queue, batch=3, consumerGroup=GROUP, wait=True, timeout=5000)
    assert data(again) == [2, 3]
    second = {"transactionId": again[0]["transactionId"], "leaseId": again[0]["leaseId"]}
    assert cycle(api, **common, ack=second)["ack_result"]["lease_released"] is True
    assert data(pop(api, queue, batch=3, consumerGroup=GROUP)) == [3]


@pytest.mark.parametrize("status", ["failed", "dlq"])
def test_a_failed_ack_dead_letters(api: httpx2.Client, queue: str, query_id: str, status: str) -> None:
    push(api, queue, 1, 2)
    messages = pop(api, queue, batch=2, consumerGroup=GROUP, subscriptionMode="all")
    ack = {"transactionId": messages[0]["transactionId"], "leaseId": messages[0]["leaseId"], "status": status}
    body = cycle(
        api, query_id=query_id, partition_id=messages[0]["partitionId"], consumer_group=GROUP, ack=ack
    )  # fmt: skip
    assert body["ack_result"] == {"success": True, "count": 1, "lease_released": True, "dlq": True}
    assert api.get("/api/v1/dlq", params={"queue": queue}).json()["total"] == 1
    assert data(pop(api, queue, batch=2, consumerGroup=GROUP)) == [2]


def test_state_filters(api: httpx2.Client, queue: str, query_id: str) -> None:
    (pushed,) = push(api, queue, 1)
    ids = {"query_id": query_id, "partition_id": pushed["partition_id"]}
    values = {"a\u001f1": {"windowEnd": 100}, "a\u001f2": {"windowEnd": 200}, "b": {"windowEnd": "150"}, "c": [1]}
    cycle(api, **ids, state_ops=[{"type": "upsert", "key": key, "value": value} for key, value in values.items()])

    def keys(**wanted: Any) -> list[str]:
        return [row["key"] for row in rows(api, **ids, **wanted)]

    assert keys() == keys(keys=[]) == ["a\u001f1", "a\u001f2", "b", "c"]
    assert keys(keys=["c", "a\u001f1", "x"]) == ["a\u001f1", "c"]
    assert keys(key_prefix="a\u001f") == ["a\u001f1", "a\u001f2"]
    assert keys(ripe_at_or_before=150) == ["a\u001f1"]
    assert keys(key_prefix="a", ripe_at_or_before=1e12) == ["a\u001f1", "a\u001f2"]
    assert rows(api, query_id=str(uuid4()), partition_id=pushed["partition_id"]) == []
    assert rows(api, query_id="unknown", partition_id="unknown") == []


def test_a_registered_query_with_a_new_hash_starts_without_state(api: httpx2.Client, queue: str, query_id: str) -> None:
    (pushed,) = push(api, queue, 1)
    ids = {"query_id": query_id, "partition_id": pushed["partition_id"]}
    cycle(api, **ids, state_ops=[{"type": "upsert", "key": "k", "value": 1}])
    register(api, queue, "h1", reset=True)
    assert len(rows(api, **ids)) == 1
    register(api, queue, "h2", reset=True)
    assert rows(api, **ids) == []
