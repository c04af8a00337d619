from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.server.calls import ack_batch, configure, data, pop, push

REFUSED = [
    ({}, "items array is required"),
    ({"items": None}, "items array is required"),
    ({"items": {"queue": "q"}}, "items array is required"),
    ({"items": [{"queue": 1}]}, "Queue must be a string"),
    ({"items": [{"queue": None}]}, "Queue must be a string"),
    ({"items": [{"payload": 1}]}, "Queue must be a string"),
    ({"items": [{"queue": "q", "partition": None}]}, "Partition must be a string"),
    ({"items": [{"queue": "q", "partition": 7}]}, "Partition must be a string"),
    ({"items": [{"queue": "q", "transactionId": None}]}, "TransactionId must be a string"),
    ({"items": [{"queue": "q", "transactionId": 5}]}, "TransactionId must be a string"),
    ({"items": [{"queue": "q", "traceId": None}]}, "TraceId must be a string"),
    ({"items": [{"queue": "q", "traceId": "not-a-uuid"}]}, "traceId must be a UUID"),
    ({"items": [{"queue": "q", "parentId": "x"}]}, "parentId must be a UUID"),
    (
        {"items": [{"queue": "q", "deliverAt": "soon"}]},
        "deliverAt must be an ISO 8601 time such as 2026-11-15T04:00:00Z",
    ),
    ({"items": [{"queue": "q", "transactionId": ""}]}, "transactionId must have 1 to 255 characters and no NUL"),
]


def test_a_push_is_answered_as_clients_expect(api: httpx2.Client, queue: str) -> None:
    trace = str(uuid.uuid4())
    first, second = push(api, queue, {"n": 1}, {"n": 2}, partition="eu", traceId=trace)
    assert first == {
        "index": 0,
        "transaction_id": first["message_id"],
        "status": "queued",
        "message_id": first["message_id"],
        "partition_id": second["partition_id"],
        "trace_id": trace,
        "queueName": queue,
        "seq": 1,
    }
    assert uuid.UUID(first["message_id"]).version == 7
    assert first["message_id"] < second["message_id"]


def test_an_empty_push_is_an_empty_array(api: httpx2.Client) -> None:
    answer = api.post("/api/v1/push", json={"items": []})
    assert (answer.status_code, answer.json()) == (201, [])


@pytest.mark.parametrize(("body", "text"), REFUSED)
def test_wrong_types_are_refused_by_name(api: httpx2.Client, body: Any, text: str) -> None:
    answer = api.post("/api/v1/push", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, text)


@pytest.mark.parametrize(
    "payload", [None, {}, [], "text", 0, -1.5, True, {"deep": [{"er": None}]}, "ü\u2028\U0001f451"]
)
def test_payloads_come_back_as_they_are(api: httpx2.Client, queue: str, payload: Any) -> None:
    push(api, queue, payload)
    assert data(pop(api, queue)) == [payload]


def test_a_missing_payload_is_null(api: httpx2.Client, queue: str) -> None:
    assert api.post("/api/v1/push", json={"items": [{"queue": queue}]}).status_code == 201
    assert data(pop(api, queue)) == [None]


def test_a_repeated_id_is_a_duplicate_of_the_first(api: httpx2.Client, queue: str) -> None:
    (first,) = push(api, queue, {"n": 1}, transactionId="m-1")
    (second,) = push(api, queue, {"n": 2}, transactionId="m-1")
    assert (second["status"], second["message_id"]) == ("duplicate", first["message_id"])
    assert data(pop(api, queue, batch=10)) == [{"n": 1}]


def test_three_equal_ids_in_one_call(api: httpx2.Client, queue: str) -> None:
    results = push(api, queue, 1, 2, 3, transactionId="same")
    assert sorted(result["status"] for result in results) == ["duplicate", "duplicate", "queued"]
    assert len({result["message_id"] for result in results}) == 1
    again = push(api, queue, 4, 5, transactionId="same")
    assert [result["status"] for result in again] == ["duplicate", "duplicate"]
    assert {result["message_id"] for result in again} == {results[0]["message_id"]}


def test_eight_at_once_with_one_id(api: httpx2.Client, queue: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = [found[0] for found in pool.map(lambda n: push(api, queue, n, transactionId="race"), range(8))]
    assert sorted(result["status"] for result in results) == ["duplicate"] * 7 + ["queued"]
    assert len({result["message_id"] for result in results}) == 1


def test_the_same_id_in_another_partition_is_new(api: httpx2.Client, queue: str) -> None:
    assert push(api, queue, 1, partition="a", transactionId="x")[0]["status"] == "queued"
    assert push(api, queue, 1, partition="b", transactionId="x")[0]["status"] == "queued"


def test_a_hundred_without_ids_are_a_hundred(api: httpx2.Client, queue: str) -> None:
    results = push(api, queue, *range(100))
    assert {result["status"] for result in results} == {"queued"}
    assert len({result["message_id"] for result in results}) == 100
    assert [result["index"] for result in results] == list(range(100))
    assert data(pop(api, queue, batch=100)) == list(range(100))


def test_queues_and_partitions_mix_in_one_call(api: httpx2.Client, queue: str) -> None:
    items = [{"queue": f"{queue}-{n % 2}", "partition": f"p{n % 3}", "payload": n} for n in range(12)]
    results = api.post("/api/v1/push", json={"items": items}).json()
    assert [result["queueName"] for result in results] == [item["queue"] for item in items]
    assert len({result["partition_id"] for result in results}) == 6
    assert data(pop(api, f"{queue}-0", "p0")) == [0]


def test_a_thousand_items_and_a_message_of_two_megabytes(api: httpx2.Client, queue: str) -> None:
    assert len(push(api, queue, *range(1000), partition="many")) == 1000
    large = "x" * 2_000_000
    push(api, queue, large, partition="large")
    assert data(pop(api, queue, "large")) == [large]


def test_the_producer_cannot_name_itself(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, producerSub="somebody")
    assert pop(api, queue)[0]["producerSub"] is None


def test_a_full_queue_says_so(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, maxSize=3)
    push(api, queue, 1, 2, 3)
    answer = api.post("/api/v1/push", json={"items": [{"queue": queue, "payload": 4}]})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    body = answer.json()
    assert (body["code"], body["retryable"], body["details"]["limit"]) == ("QUEUE_FULL", True, 3)
    messages = pop(api, queue, batch=3)
    ack_batch(api, messages)
    assert push(api, queue, 4)[0]["status"] == "queued"


def test_a_message_for_later_waits(api: httpx2.Client, queue: str) -> None:
    (result,) = push(api, queue, 1, deliverAt="2999-01-01T00:00:00Z")
    assert result["status"] == "scheduled"
    assert pop(api, queue) == []
    push(api, queue, 2, deliverAt="2001-01-01T00:00:00Z")
    assert data(pop(api, queue)) == [2]


def test_a_child_knows_its_parent(api: httpx2.Client, queue: str) -> None:
    (parent,) = push(api, queue, 1, partition="parents")
    push(api, queue, 2, partition="children", parentId=parent["message_id"])
    assert pop(api, queue, "children")[0]["parentId"] == parent["message_id"]


def test_an_encrypted_queue_gives_back_what_it_got(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, encryptionEnabled=True)
    push(api, queue, {"secret": "ü"})
    assert data(pop(api, queue)) == [{"secret": "ü"}]


def test_too_many_items_are_refused(api: httpx2.Client, queue: str) -> None:
    answer = api.post("/api/v1/push", json={"items": [{"queue": queue}] * 10_001})
    assert answer.status_code == 400
    assert "at most 10000" in answer.json()["error"]
