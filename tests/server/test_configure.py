from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.server.calls import ack, configure, data, pop, push

DEFAULTS = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1000,
    "maxSize": 0,
    "ttl": 3600,
    "priority": 0,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "retentionEnabled": False,
    "encryptionEnabled": False,
    "maxWaitTimeSeconds": 0,
}
OURS = {"maxDeliveries": 0, "partialFailure": "dlq", "deliveryLog": True, "archive": False}
CHANGED = {
    "leaseTime": 60,
    "retryLimit": 5,
    "retryDelay": 200,
    "maxSize": 5000,
    "ttl": 60,
    "priority": 7,
    "deadLetterQueue": True,
    "dlqAfterMaxRetries": True,
    "delayedProcessing": 1,
    "windowBuffer": 2,
    "retentionSeconds": 10,
    "completedRetentionSeconds": 20,
    "retentionEnabled": True,
    "encryptionEnabled": True,
    "maxWaitTimeSeconds": 30,
}


def test_every_option_is_read_back(api: httpx2.Client, queue: str) -> None:
    ours = {"maxDeliveries": 4, "partialFailure": "retry", "deliveryLog": False, "archive": True}
    body = configure(api, queue, **CHANGED, **ours)
    assert body["configured"] is True
    assert (body["queue"], body["namespace"], body["task"]) == (queue, "", "")
    assert body["options"] == {**CHANGED, **ours}
    (pushed,) = push(api, queue, 1)
    assert pushed["partition_id"] == body["partitionId"]


def test_what_is_left_out_goes_back_but_for_ours(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, **CHANGED, maxDeliveries=4, archive=True)
    assert configure(api, queue)["options"] == {**DEFAULTS, **OURS, "maxDeliveries": 4, "archive": True}
    assert configure(api, f"{queue}-new", leaseTime=None)["options"] == {**DEFAULTS, **OURS}


def test_messages_and_cursors_are_kept(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    ack(api, pop(api, queue)[0])
    configure(api, queue, leaseTime=7)
    assert data(pop(api, queue, batch=9)) == [2]


def test_namespace_and_task_are_kept_as_given(api: httpx2.Client, queue: str) -> None:
    body = {"queue": queue, "namespace": "shop", "task": "mail"}
    answer = api.post("/api/v1/configure", json=body).json()
    assert (answer["namespace"], answer["task"]) == ("shop", "mail")


def test_a_queue_made_by_push_takes_them_from_its_name(api: httpx2.Client, queue: str) -> None:
    push(api, f"{queue}.send.fast", 1)
    answer = api.post("/api/v1/configure", json={"queue": f"{queue}.send.fast"}).json()
    assert (answer["namespace"], answer["task"]) == (queue, "send")


def test_the_empty_name_and_unknown_options_are_accepted(client: httpx2.Client) -> None:
    assert configure(client, "", shoeSize=43)["queue"] == ""


def test_a_lease_time_of_zero_means_a_minute(api: httpx2.Client, queue: str) -> None:
    assert configure(api, queue, leaseTime=0)["options"]["leaseTime"] == 60


def test_a_retry_delay_is_applied_when_asked_for(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryDelay=700)
    push(api, queue, 1)
    ack(api, pop(api, queue)[0], "failed")
    assert pop(api, queue) == []
    assert data(pop(api, queue, wait=True, timeout=5000)) == [1]
    configure(api, queue)
    push(api, queue, 2, partition="b")
    ack(api, pop(api, queue, "b")[0], "failed")
    assert data(pop(api, queue, "b")) == [2]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "queue is required"),
        ({"queue": None}, "queue is required"),
        ({"queue": 5}, "queue is required"),
        ({"queue": "q", "options": {"leaseTime": "60"}}, "options.leaseTime"),
        ({"queue": "q", "options": {"leaseTime": -1}}, "leaseTime must not be negative"),
        ({"queue": "q", "options": {"maxSize": -1}}, "maxSize must not be negative"),
        ({"queue": "q", "options": {"retryLimit": 10**12}}, "retryLimit must be a whole number"),
        ({"queue": "q", "options": {"retentionEnabled": "yes"}}, "options.retentionEnabled"),
        ({"queue": "q", "options": {"partialFailure": "panic"}}, "options.partialFailure"),
        ({"queue": "q" * 600}, "queue must be a name of at most 512 bytes"),
        ({"queue": "q\0"}, "queue must be a name"),
    ],
)
def test_what_is_not_allowed_is_named(api: httpx2.Client, body: Any, word: str) -> None:
    answer = api.post("/api/v1/configure", json=body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_encryption_without_a_key_is_refused(client: httpx2.Client) -> None:
    answer = client.post("/api/v1/configure", json={"queue": "q", "options": {"encryptionEnabled": True}})
    assert (answer.status_code, answer.json()["code"]) == (400, "ENCRYPTION_UNAVAILABLE")
