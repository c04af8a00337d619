from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.server.calls import Json, configure, data, pop, push


def commit(api: httpx2.Client, *operations: Json, **fields: Any) -> Json:
    answer = api.post("/api/v1/transaction", json={"operations": list(operations), **fields})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def pushing(queue: str, *payloads: Any, **fields: Any) -> Json:
    return {"type": "push", "items": [{"queue": queue, "payload": payload, **fields} for payload in payloads]}


def acking(message: Json, status: str = "completed", **fields: Any) -> Json:
    ids = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    return {"type": "ack", **ids, "status": status, "consumerGroup": message["consumerGroup"], **fields}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "operations array required"),
        ({"operations": {}}, "operations array required"),
        ({"operations": []}, "operations array cannot be empty"),
    ],
)
def test_operations_are_required(api: httpx2.Client, body: Any, text: str) -> None:
    answer = api.post("/api/v1/transaction", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, text)


def test_a_message_moves_on(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    target = f"{queue}-next"
    body = commit(api, pushing(target, {"n": 2}), acking(message), requiredLeases=[message["leaseId"]])
    first, second = body["results"]
    assert body["success"]
    assert (first["index"], first["type"], first["success"], first["queueName"]) == (0, "push", True, target)
    assert first["messageId"]
    assert first["partitionId"]
    assert second == {
        "index": 1,
        "type": "ack",
        "success": True,
        "transactionId": message["transactionId"],
        "error": None,
        "dlq": False,
    }
    assert data(pop(api, target)) == [{"n": 2}]
    push(api, queue, 3)
    assert data(pop(api, queue)) == [3]


def test_many_queues_and_many_acks(api: httpx2.Client, queue: str) -> None:
    for name in "ab":
        push(api, queue, name, partition=name)
    messages = pop(api, queue, batch=2, partitions=2)
    body = commit(
        api, pushing(f"{queue}-1", *range(5)), *map(acking, messages), pushing(f"{queue}-2", "x", partition="p")
    )
    assert [result["type"] for result in body["results"]] == ["push"] * 5 + ["ack", "ack", "push"]
    assert [result["index"] for result in body["results"]] == list(range(8))
    assert data(pop(api, f"{queue}-1", batch=9)) == list(range(5))
    assert data(pop(api, f"{queue}-2")) == ["x"]


def test_an_unknown_message_rolls_everything_back(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, leaseTime=1)
    push(api, queue, 1)
    (message,) = pop(api, queue)
    body = commit(api, pushing(f"{queue}-next", 2), acking(message), acking({**message, "transactionId": "nobody"}))
    assert not body["success"]
    assert body["error"].startswith("ACK operation failed: Message not found")
    assert "rolled back" in body["error"]
    assert pop(api, f"{queue}-next") == []
    assert data(pop(api, queue, wait=True, timeout=5000)) == [1]


def test_a_failed_ack_dead_letters_at_once(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=5)
    push(api, queue, 1)
    body = commit(api, acking(pop(api, queue)[0], "failed", error="no"))
    assert body["results"][0]["dlq"]
    assert pop(api, queue) == []


def test_retry_fails_the_transaction(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    assert not commit(api, acking(pop(api, queue)[0], "retry"))["success"]


def test_another_group_is_untouched(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue, consumerGroup="one", subscriptionMode="all")
    assert commit(api, acking(message))["success"]
    assert data(pop(api, queue, consumerGroup="two", subscriptionMode="all")) == [1]
    assert pop(api, queue, consumerGroup="one") == []


def test_a_lost_lease_rolls_back(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    gone = "00000000-0000-7000-8000-000000000000"
    for operation, fields in (
        (acking(message, leaseId=gone), {}),
        (acking(message), {"requiredLeases": [gone]}),
        (acking(message), {"requiredLeases": ["no lease"]}),
    ):
        body = commit(api, pushing(f"{queue}-next", 1), operation, **fields)
        assert not body["success"]
        assert "lease" in body["error"]
    assert pop(api, f"{queue}-next") == []


def test_a_repeated_id_rolls_back(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, transactionId="once")
    body = commit(api, pushing(queue, 2, transactionId="fresh"), pushing(queue, 3, transactionId="once"))
    assert not body["success"]
    assert "rolled back" in body["error"]
    assert data(pop(api, queue, batch=9)) == [1]


def test_a_full_queue_refuses_the_transaction(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, maxSize=1)
    push(api, queue, 1)
    answer = api.post("/api/v1/transaction", json={"operations": [pushing(queue, 2)]})
    assert (answer.status_code, answer.json()["code"]) == (429, "QUEUE_FULL")
