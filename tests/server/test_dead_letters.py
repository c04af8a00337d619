from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, configure, data, pop, push

Json = dict[str, Any]


def bury(api: httpx2.Client, queue: str, *errors: str, **query: Any) -> None:
    """One dead letter per error text."""
    push(api, queue, *[{"n": n} for n in range(len(errors))])
    for error in errors:
        (message,) = pop(api, queue, **query)
        assert ack(api, message, "dlq", error=error)["dlq"]


def letters(api: httpx2.Client, queue: str, **query: Any) -> Json:
    answer = api.get("/api/v1/dlq", params={"queue": queue, **query})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_a_handler_that_keeps_failing_ends_here(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=1)
    (pushed,) = push(api, queue, {"message": "hello"}, partition="eu", transactionId="m-1")
    for _ in range(2):
        ack_batch(api, pop(api, queue), "failed", error="handler broke")
    body = letters(api, queue)
    (letter,) = body["messages"]
    for name in ("createdAt", "failedAt"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", letter.pop(name))
    assert letter.pop("deadLetterId")
    assert letter == {
        "id": pushed["message_id"], "transactionId": "m-1", "partitionId": pushed["partition_id"], "queue": queue,
        "partition": "eu", "consumerGroup": "__QUEUE_MODE__", "errorMessage": "handler broke", "retryCount": 1,
        "data": {"message": "hello"}, "producerSub": None, "traceId": None, "parentId": None, "evicted": False,
        "isEncrypted": False, "redrivenAt": None, "redrivenAs": None,
    }  # fmt: skip
    assert body["total"] == 1
    assert body["pagination"] == {"limit": 100, "offset": 0, "total": 1}


def test_newest_failure_first_and_pages(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, *[f"e{n}" for n in range(5)])
    first = letters(api, queue, limit=2)
    assert [letter["errorMessage"] for letter in first["messages"]] == ["e4", "e3"]
    assert first["total"] == 5
    rest = letters(api, queue, cursor=first["nextCursor"])
    assert [letter["errorMessage"] for letter in rest["messages"]] == ["e2", "e1", "e0"]
    assert letters(api, queue, limit=3, offset=2)["messages"] == rest["messages"]


def test_filters(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, "timeout after 3 s", "no such user", consumerGroup="g", subscriptionMode="all")
    assert letters(api, queue, consumerGroup="g")["total"] == 2
    assert letters(api, queue, consumerGroup="other")["total"] == 0
    assert letters(api, queue, partition="Default")["total"] == 2
    assert letters(api, queue, partition="other")["total"] == 0
    assert letters(api, queue, errorContains="timeout")["total"] == 1
    assert letters(api, queue, error="timeout after <n> s")["total"] == 1
    assert letters(api, queue, **{"from": "2999-01-01T00:00:00Z"})["total"] == 0
    assert letters(api, queue, to="2000-01-01T00:00:00Z")["total"] == 0
    assert letters(api, f"{queue}-no") == {
        "messages": [], "pagination": {"limit": 100, "offset": 0, "total": 0}, "total": 0, "nextCursor": None,
    }  # fmt: skip


def test_one_dead_letter_is_decrypted_the_list_is_not(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, encryptionEnabled=True)
    bury(api, queue, "boom")
    (letter,) = letters(api, queue)["messages"]
    assert set(letter["data"]) == {"encrypted", "iv", "authTag"}
    assert api.get(f"/api/v1/dlq/{letter['deadLetterId']}").json()["data"] == {"n": 0}


@pytest.mark.parametrize("number", ["x", "51e00000-0000-8002-8000-0000000fffff"])
def test_an_unknown_dead_letter_is_404(api: httpx2.Client, number: str) -> None:
    assert api.get(f"/api/v1/dlq/{number}").status_code == 404


def test_grouped_by_what_errors_have_in_common(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, "no user 'anna'", "timeout after 3 s", "no user 'bob'")
    groups = api.get("/api/v1/dlq/groups", params={"queue": queue}).json()["groups"]
    assert [(group["error"], group["count"]) for group in groups] == [("no user <x>", 2), ("timeout after <n> s", 1)]
    assert (groups[0]["sample"], groups[0]["queues"]) == ("no user 'bob'", [queue])
    assert api.get(f"/api/v1/dlq/{groups[0]['newest']}").json()["errorMessage"] == "no user 'bob'"


def test_redrive_by_id_with_another_payload(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, "e0", "e1")
    newest, oldest = letters(api, queue)["messages"]
    body = {"ids": [oldest["deadLetterId"]], "payload": {"mended": True}}
    assert api.post("/api/v1/dlq/redrive", json=body).json() == {
        "success": True, "matched": 1, "redriven": 1, "dryRun": False,
    }  # fmt: skip
    assert data(pop(api, queue, batch=5)) == [{"mended": True}]
    assert [letter["id"] for letter in letters(api, queue)["messages"]] == [newest["id"]]
    shown = letters(api, queue, redriven="true")["messages"][1]
    assert shown["redrivenAs"]
    again = api.post("/api/v1/dlq/redrive", json={"ids": [oldest["deadLetterId"]]}).json()
    assert (again["matched"], again["redriven"]) == (0, 0)


def test_redrive_everything_that_matches_to_another_queue(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, "timeout 1", "other", "timeout 2")
    body = {"queue": queue, "errorContains": "timeout", "toQueue": f"{queue}-again"}
    preview = api.post("/api/v1/dlq/redrive", json={**body, "dryRun": True}).json()
    assert (preview["matched"], preview["redriven"], preview["dryRun"]) == (2, 0, True)
    assert pop(api, f"{queue}-again") == []
    assert api.post("/api/v1/dlq/redrive", json=body).json()["redriven"] == 2
    assert data(pop(api, f"{queue}-again", batch=5)) == [{"n": 0}, {"n": 2}]


def test_purge(api: httpx2.Client, queue: str) -> None:
    bury(api, queue, "a", "b", "a")
    body = {"queue": queue, "errorContains": "a"}
    assert api.post("/api/v1/dlq/purge", json={**body, "dryRun": True}).json() == {
        "success": True, "matched": 2, "purged": 0, "dryRun": True,
    }  # fmt: skip
    assert api.post("/api/v1/dlq/purge", json=body).json()["purged"] == 2
    assert [letter["errorMessage"] for letter in letters(api, queue)["messages"]] == ["b"]


@pytest.mark.parametrize("verb", ["redrive", "purge"])
@pytest.mark.parametrize(
    "body",
    [{}, {"ids": ["x"]}, {"ids": "x"}, {"queue": 3}, {"queue": "q", "before": "soon"}, {"queue": "q", "dryRun": "yes"},
     {"queue": "a\0"}],
)  # fmt: skip
def test_a_selection_must_be_clear(api: httpx2.Client, verb: str, body: Json) -> None:
    answer = api.post(f"/api/v1/dlq/{verb}", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("more", [{"payload": 1}, {"limit": 0}, {"limit": 100_001}])
def test_redrive_has_limits(api: httpx2.Client, queue: str, more: Json) -> None:
    assert api.post("/api/v1/dlq/redrive", json={"queue": queue, **more}).status_code == 400
