from __future__ import annotations

import re

import httpx2

from tests.server.calls import ack, configure, data, pop, push

NOBODY = "00000000-0000-7000-8000-000000000000"


def test_an_extension_suits_every_client(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    body = api.post(f"/api/v1/lease/{message['leaseId']}/extend", json={"seconds": 600}).json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["newExpiresAt"])
    assert body == {
        "leaseId": message["leaseId"],
        "success": True,
        "renewed": 1,
        "error": None,
        "newExpiresAt": body["newExpiresAt"],
        "expiresAt": body["newExpiresAt"],
        "lease_expires_at": body["newExpiresAt"],
    }


def test_an_empty_body_counts_as_an_empty_object(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    answer = api.post(f"/api/v1/lease/{message['leaseId']}/extend")
    assert (answer.status_code, answer.json()["success"]) == (200, True)


def test_one_call_extends_every_partition(api: httpx2.Client, queue: str) -> None:
    for name in "abc":
        push(api, queue, 1, partition=name)
    messages = pop(api, queue, batch=3, partitions=3)
    assert api.post(f"/api/v1/lease/{messages[0]['leaseId']}/extend", json={}).json()["renewed"] == 3


def test_a_lease_that_ended_is_not_revived(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    ack(api, message)
    for lease in (message["leaseId"], NOBODY, "no lease"):
        body = api.post(f"/api/v1/lease/{lease}/extend", json={}).json()
        assert (body["success"], body["renewed"], body["newExpiresAt"]) == (False, 0, None)
        assert body["error"]


def test_renewal_keeps_the_work_and_its_absence_does_not(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, leaseTime=1)
    push(api, queue, 1)
    (message,) = pop(api, queue)
    for _ in range(2):
        assert api.post(f"/api/v1/lease/{message['leaseId']}/extend", json={"seconds": 2}).json()["success"]
        assert pop(api, queue, wait=True, timeout=1100) == []
    assert ack(api, message)["success"]
    push(api, queue, 2)
    pop(api, queue)
    assert data(pop(api, queue, wait=True, timeout=5000)) == [2]


def test_what_is_no_number_of_seconds_is_refused(api: httpx2.Client) -> None:
    for seconds in ("60", 0, -1, 10**9):
        assert api.post(f"/api/v1/lease/{NOBODY}/extend", json={"seconds": seconds}).status_code == 400


def test_a_lease_is_handed_back_uncounted(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (message,) = pop(api, queue)
    body = api.post("/api/v1/nack", json={"leaseId": message["leaseId"]}).json()
    assert body == {"success": True, "released": 1, "error": None}
    (again,) = pop(api, queue)
    assert again["retryCount"] == 0
    api.post("/api/v1/nack", json={"leaseId": again["leaseId"], "delayMs": 700})
    assert pop(api, queue) == []
    assert data(pop(api, queue, wait=True, timeout=5000)) == [1]
    assert not api.post("/api/v1/nack", json={"leaseId": NOBODY}).json()["success"]
    assert api.post("/api/v1/nack", json={}).json()["error"] == "leaseId is required"
