from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.server.calls import ack, pop, push

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
Json = dict[str, Any]


def record(api: httpx2.Client, pushed: Json, **fields: Any) -> Json:
    body = {
        "transactionId": pushed["transaction_id"],
        "partitionId": pushed["partition_id"],
        "data": {"step": 1},
        **fields,
    }
    answer = api.post("/api/v1/traces", json=body)
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    assert found["success"]
    return found


def test_events_of_a_message(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    first = record(api, pushed, consumerGroup="g", eventType="started", traceNames=["order", "mail"])
    record(api, pushed, data="just text", traceNames="order")
    record(api, pushed, data=None, traceNames=None)
    traces = api.get(f"/api/v1/traces/{pushed['partition_id']}/{pushed['transaction_id']}").json()["traces"]
    assert [trace["data"] for trace in traces] == [{"step": 1}, "just text", None]
    assert re.fullmatch(TIME, traces[0].pop("created_at"))
    assert traces[0] == {
        "id": first["traceId"], "event_type": "started", "data": {"step": 1}, "consumer_group": "g",
        "worker_id": None, "trace_names": ["mail", "order"],
    }  # fmt: skip
    assert (traces[1]["event_type"], traces[1]["consumer_group"]) == ("info", None)


def test_an_unknown_message(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    for body in (
        {"transactionId": "nope", "partitionId": pushed["partition_id"], "data": {}},
        {"transactionId": "nope", "partitionId": "no id", "data": {}},
    ):
        answer = api.post("/api/v1/traces", json=body)
        assert (answer.status_code, answer.json()) == (404, {"success": False, "error": "Message not found"})
    assert api.get(f"/api/v1/traces/{pushed['partition_id']}/nope").json() == {"traces": []}


@pytest.mark.parametrize("missing", ["transactionId", "partitionId", "data"])
def test_what_must_be_there(api: httpx2.Client, missing: str) -> None:
    body = {"transactionId": "t", "partitionId": "p", "data": {}}
    del body[missing]
    answer = api.post("/api/v1/traces", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, f"{missing} is required")


@pytest.mark.parametrize("names", [3, [3], {"a": 1}, ["x" * 600], ["a\0"]])
def test_names_must_be_names(api: httpx2.Client, queue: str, names: Any) -> None:
    (pushed,) = push(api, queue, 1)
    body = {"transactionId": pushed["transaction_id"], "partitionId": pushed["partition_id"], "data": {}}
    assert api.post("/api/v1/traces", json={**body, "traceNames": names}).status_code == 400


def test_events_by_name(api: httpx2.Client, queue: str) -> None:
    name = f"{queue}/order 1"
    pushed = push(api, queue, {"n": 1}, {"n": 2}, {"n": 3}, partition="eu")
    for each in pushed:
        record(api, each, traceNames=[name])
    path = f"/api/v1/traces/by-name/{queue}%2Forder%201"
    body = api.get(path, params={"limit": 2}).json()
    assert (body["total"], body["pagination"]) == (3, {"limit": 2, "offset": 0, "total": 3})
    trace = body["traces"][0]
    assert {key: trace[key] for key in ("transaction_id", "partition_id", "queue_name", "partition_name")} == {
        "transaction_id": pushed[0]["transaction_id"], "partition_id": pushed[0]["partition_id"],
        "queue_name": queue, "partition_name": "eu",
    }  # fmt: skip
    assert [each["message_payload"] for each in body["traces"]] == [{"n": 1}, {"n": 2}]
    assert [each["message_payload"] for each in api.get(path, params={"offset": 2}).json()["traces"]] == [{"n": 3}]
    rest = api.get(path, params={"cursor": body["nextCursor"]}).json()
    assert [each["message_payload"] for each in rest["traces"]] == [{"n": 3}]
    assert api.get("/api/v1/traces/by-name/nothing").json()["traces"] == []


def test_names_in_use(client: httpx2.Client) -> None:
    first, second = push(client, "q", 1, 2)
    record(client, first, traceNames=["often"])
    record(client, second, traceNames=["often"])
    record(client, second, traceNames=["once"])
    body = client.get("/api/v1/traces/names").json()
    assert body["total"] == 2
    assert body["pagination"] == {"limit": 50, "offset": 0, "total": 2}
    assert all(re.fullmatch(TIME, entry.pop("last_seen")) for entry in body["trace_names"])
    assert body["trace_names"] == [
        {"trace_name": "once", "trace_count": 1, "message_count": 1},
        {"trace_name": "often", "trace_count": 2, "message_count": 2},
    ]


def test_every_message_of_a_trace_id(api: httpx2.Client, queue: str) -> None:
    trace = str(uuid4())
    (parent,) = push(api, queue, {"n": 1}, traceId=trace)
    ack(api, pop(api, queue)[0])
    push(api, f"{queue}-out", {"n": 2}, traceId=trace, parentId=parent["message_id"])
    body = api.get(f"/api/v1/traces/id/{trace}").json()
    assert body["traceId"] == trace
    assert [(each["queue"], each["payload"], each["parentId"]) for each in body["messages"]] == [
        (queue, {"n": 1}, None), (f"{queue}-out", {"n": 2}, parent["message_id"]),
    ]  # fmt: skip
    assert [[each["outcome"] for each in message["deliveries"]] for message in body["messages"]] == [["completed"], []]
    assert api.get(f"/api/v1/traces/id/{uuid4()}").json()["messages"] == []
    assert api.get("/api/v1/traces/id/not-a-uuid").status_code == 400
