from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx2

from tests.server.calls import data, pop, push


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_what_waits_for_its_time(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, {"n": 2}, partition="eu", deliverAt=later(200), transactionId="t-2")
    push(api, queue, {"n": 1}, deliverAt=later(100))
    assert pushed["status"] == "scheduled"
    assert pop(api, queue) == []
    body = api.get("/api/v1/scheduled", params={"queue": queue}).json()
    assert [entry["payload"] for entry in body["messages"]] == [{"n": 1}, {"n": 2}]
    entry = body["messages"][1]
    for name in ("deliverAt", "createdAt"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop(name))
    assert entry == {
        "id": pushed["message_id"], "queue": queue, "partition": "eu", "transactionId": "t-2", "traceId": None,
        "parentId": None, "payload": {"n": 2}, "producerSub": None,
    }  # fmt: skip
    page = api.get("/api/v1/scheduled", params={"queue": queue, "limit": 1}).json()
    rest = api.get("/api/v1/scheduled", params={"queue": queue, "cursor": page["nextCursor"]}).json()
    assert [entry["payload"] for entry in rest["messages"]] == [{"n": 2}]


def test_a_message_arrives_when_it_is_due(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, deliverAt=later(0.5))
    assert data(pop(api, queue, wait=True, timeout=10_000)) == [1]
    assert api.get("/api/v1/scheduled", params={"queue": queue}).json()["messages"] == []


def test_taking_a_message_off_the_schedule(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1, deliverAt=later(100))
    path = f"/api/v1/scheduled/{pushed['message_id']}"
    assert api.delete(path).json() == {"success": True, "id": pushed["message_id"]}
    assert api.delete(path).status_code == 404
    assert api.delete(f"/api/v1/scheduled/{uuid4()}").json()["code"] == "MESSAGE_NOT_FOUND"
    assert api.delete("/api/v1/scheduled/no-id").status_code == 400
