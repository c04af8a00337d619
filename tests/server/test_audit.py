"""The audit log in the database: who did what through the API."""

from __future__ import annotations

from typing import Any

import httpx2
import jwt
import pytest

from tests.server.calls import ack, configure, pop, push
from tests.server.conftest import SECRET
from tests.server.running import Running


def acts(client: httpx2.Client, queue: str | None = None) -> list[dict[str, Any]]:
    """The log of one queue, the oldest first."""
    found = client.get("/system", params={"tab": "audit", "format": "json", **({"queue": queue} if queue else {})})
    return list(reversed(found.json()["page"]["acts"]))


def test_acts_through_the_api_are_noted(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3)
    message = pop(api, queue, consumerGroup="billing")[0]
    api.post(f"/api/v1/queues/{queue}/pause")
    api.post(f"/api/v1/queues/{queue}/resume")
    api.put(f"/api/v1/queues/{queue}/options", json={"leaseTime": 77})
    seek = f"/api/v1/consumer-groups/billing/queues/{queue}/seek"
    assert api.post(seek, json={"toBeginning": True, "dryRun": True}).status_code == 200
    assert api.post(seek, json={"toBeginning": True}).status_code == 200
    ack(api, pop(api, queue, consumerGroup="billing")[0], "dlq", consumerGroup="billing")
    api.post("/api/v1/dlq/redrive", json={"queue": queue})
    api.delete(f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}")
    api.delete(f"/api/v1/consumer-groups/billing/queues/{queue}")
    api.delete(f"/api/v1/queues/{queue}/clear")
    found = acts(api, queue)
    names = [each["act"] for each in found]
    assert names == ["pause", "resume", "configure", "seek", "redrive", "forget", "clear"]
    assert {each["subject"] for each in found} == {"anyone"}
    assert [each["target"] for each in found if each["act"] in ("seek", "forget")] == ["billing", "billing"]
    assert all(each["text"].endswith("(API)") for each in found)
    assert "delete-message" in [each["act"] for each in acts(api)]


def test_payloads_do_not_get_into_the_log(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    ack(api, pop(api, queue)[0], "dlq")
    found = api.get("/dead-letters", params={"queue": queue, "format": "json"}).json()["page"]["deadLetters"]
    api.post("/api/v1/dlq/redrive", json={"ids": [found[0]["id"]], "queue": queue, "payload": {"card": "4111-secret"}})
    assert "4111-secret" not in api.get(f"/system?tab=audit&format=json&queue={queue}").text


def test_a_client_that_says_again_what_it_wants_changes_nothing(api: httpx2.Client, queue: str) -> None:
    for _ in range(3):
        configure(api, queue, leaseTime=30)
    configure(api, queue, leaseTime=31)
    assert [each["act"] for each in acts(api, queue)] == ["configure", "configure"]


def test_what_was_refused_is_not_noted(api: httpx2.Client, queue: str) -> None:
    assert api.post(f"/api/v1/queues/{queue}/pause").status_code == 404
    assert acts(api, queue) == []


@pytest.mark.parametrize("role", ["read-write", "admin"])
def test_the_log_names_who_did_it(guarded: Running, queue: str, role: str) -> None:
    token = jwt.encode({"sub": f"ada-{role}", "role": role}, SECRET, algorithm="HS256")
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=guarded.url, headers=headers, timeout=40) as client:
        push(client, queue, 1)
        client.post(f"/api/v1/queues/{queue}/pause")
        assert [each["subject"] for each in acts(client, queue)] == [f"ada-{role}"]
