from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, configure, data, pop, push

UNKNOWN = "51e00000-0000-8001-8000-00000000ffff"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"partitionId": "p"}, "transactionId is required"),
        ({"transactionId": 1, "partitionId": "p"}, "transactionId is required"),
        ({"transactionId": "t"}, "partitionId is required to ensure message uniqueness"),
        ({"transactionId": "t", "partitionId": None}, "partitionId is required to ensure message uniqueness"),
    ],
)
def test_both_ids_are_required(api: httpx2.Client, body: Any, text: str) -> None:
    answer = api.post("/api/v1/ack", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, text)
    batch = api.post("/api/v1/ack/batch", json={"acknowledgments": [body]})
    assert (batch.status_code, batch.json()["error"]) == (400, text)


def test_a_batch_needs_its_array(api: httpx2.Client) -> None:
    answer = api.post("/api/v1/ack/batch", json={})
    assert (answer.status_code, answer.json()["error"]) == (400, "acknowledgments array is required")


def test_a_single_ack_is_answered_with_an_array(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, partition="eu", transactionId="m-1")
    result = ack(api, pop(api, queue)[0])
    assert result == {
        "index": 0,
        "transactionId": "m-1",
        "success": True,
        "error": None,
        "queueName": queue,
        "partitionName": "eu",
        "leaseReleased": True,
        "dlq": False,
    }


def test_success_is_another_word_for_completed(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    assert ack(api, pop(api, queue)[0], "success")["success"]
    assert pop(api, queue) == []


def test_another_word_fails_without_a_reason(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    result = ack(api, message, "finished")
    assert (result["success"], result["error"]) == (False, None)
    assert ack(api, message)["success"]


def test_what_is_unknown_is_refused_in_the_answer(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    for change in ({"transactionId": "nobody"}, {"partitionId": UNKNOWN}, {"partitionId": "no id"}):
        result = ack(api, {**message, **change})
        assert not result["success"]
        assert "Message not found" in result["error"]
        assert "unresolv" in result["error"]
    for lease in ("00000000-0000-7000-8000-000000000000", "no lease"):
        result = ack(api, {**message, "leaseId": lease})
        assert (result["success"], result["error"]) == (False, "Invalid or expired lease")
    assert ack(api, message)["success"]


def test_without_a_lease_no_check_is_made(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    assert ack(api, {**message, "leaseId": None})["success"]


def test_a_lease_that_a_failure_ended_does_not_complete(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    assert ack(api, message, "failed", error="boom")["success"]
    assert ack(api, message)["error"] == "Invalid or expired lease"
    assert data(pop(api, queue)) == [1]


def test_acking_the_last_consumes_all_and_keeps_the_lease(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3, 4)
    messages = pop(api, queue, batch=3)
    ack(api, messages[1])
    assert pop(api, queue) == []
    assert ack(api, messages[0])["noop"]
    assert ack(api, messages[2])["leaseReleased"]
    assert data(pop(api, queue)) == [4]


def test_a_batch_that_fails_together_uses_one_retry(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=3)
    push(api, queue, *range(100))
    for group in (None, "workers"):
        for attempt in range(3):
            messages = pop(api, queue, batch=100, **({"consumerGroup": group} if group else {}))
            assert len(messages) == 100
            assert messages[0]["retryCount"] == attempt
            ack_batch(api, messages, "failed" if attempt < 2 else "completed", group=group)
        assert pop(api, queue, batch=100, **({"consumerGroup": group} if group else {})) == []


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_attempts_are_one_more_than_the_limit(api: httpx2.Client, queue: str, limit: int) -> None:
    configure(api, queue, retryLimit=limit)
    push(api, queue, {"message": "doomed"})
    results = [ack(api, pop(api, queue)[0], "failed", error="boom") for _ in range(limit + 1)]
    assert [result["dlq"] for result in results] == [False] * limit + [True]
    assert pop(api, queue) == []


def test_every_message_gets_its_own_retries(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=1)
    push(api, queue, 1, 2, 3)
    tried = []
    while messages := pop(api, queue):
        tried += data(messages)
        ack(api, messages[0], "failed", error="no")
    assert tried == [1, 1, 2, 2, 3, 3]


def test_a_batch_past_its_limit_is_dead_lettered_whole(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=1)
    push(api, queue, 1, 2, 3)
    ack_batch(api, pop(api, queue, batch=3), "failed")
    results = ack_batch(api, pop(api, queue, batch=3), "failed")
    assert [result["dlq"] for result in results] == [True, True, True]
    assert pop(api, queue) == []


def test_dlq_at_any_time_and_retry_without_counting(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=0)
    push(api, queue, 1, 2)
    for _ in range(3):
        assert ack(api, pop(api, queue)[0], "retry")["success"]
    assert ack(api, pop(api, queue)[0], "dlq", error="by hand")["dlq"]
    assert data(pop(api, queue)) == [2]


def test_a_mixed_batch_loses_no_failure(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3)
    messages = pop(api, queue, batch=3)
    items = [
        {
            "transactionId": m["transactionId"],
            "partitionId": m["partitionId"],
            "leaseId": m["leaseId"],
            "status": status,
        }
        for m, status in zip(messages, ["completed", "failed", "completed"], strict=True)
    ]
    results = api.post("/api/v1/ack/batch", json={"acknowledgments": items}).json()
    assert [(result["success"], result["dlq"]) for result in results] == [(True, False), (True, True), (True, False)]
    assert pop(api, queue) == []


def test_a_mixed_batch_may_be_retried_instead(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, partialFailure="retry")
    push(api, queue, 1, 2, 3)
    messages = pop(api, queue, batch=3)
    items = [
        {
            "transactionId": m["transactionId"],
            "partitionId": m["partitionId"],
            "leaseId": m["leaseId"],
            "status": status,
        }
        for m, status in zip(messages, ["completed", "failed", "completed"], strict=True)
    ]
    api.post("/api/v1/ack/batch", json={"acknowledgments": items})
    again = pop(api, queue, batch=3)
    assert data(again) == [2]
    ack(api, again[0])
    assert data(pop(api, queue, batch=3)) == [3]


def test_a_failure_below_the_cursor_is_committed_already(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    first, second = pop(api, queue, batch=2)
    ack(api, second)
    result = ack(api, {**first, "leaseId": None}, "failed")
    assert not result["success"]
    assert "committed" in result["error"]
