from __future__ import annotations

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, data, pop, push


def test_deleting_a_queue_takes_everything_with_it(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    ack(api, pop(api, queue)[0], "dlq")
    answer = api.delete(f"/api/v1/resources/queues/{queue}")
    assert (answer.status_code, answer.json()) == (200, {"deleted": True, "queue": queue, "existed": True})
    assert api.delete(f"/api/v1/resources/queues/{queue}").json() == {
        "deleted": True, "queue": queue, "existed": False,
    }  # fmt: skip
    assert api.get("/api/v1/dlq", params={"queue": queue}).json()["total"] == 0
    assert pop(api, queue) == []
    push(api, queue, 3)
    assert data(pop(api, queue)) == [3]


def test_clearing_a_queue_keeps_it(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3)
    ack_batch(api, pop(api, queue))
    assert api.delete(f"/api/v1/queues/{queue}/clear").json() == {"success": True, "queue": queue, "cleared": 3}
    assert pop(api, queue) == []
    push(api, queue, 4)
    assert data(pop(api, queue)) == [4]
    assert api.delete(f"/api/v1/queues/{queue}-no/clear").status_code == 404


def test_a_paused_queue_takes_but_does_not_give(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    assert api.post(f"/api/v1/queues/{queue}/pause").json() == {"queue": queue, "paused": True}
    push(api, queue, 2)
    assert pop(api, queue) == []
    assert api.get(f"/api/v1/resources/queues/{queue}").json()["paused"] is True
    assert api.post(f"/api/v1/queues/{queue}/resume").json() == {"queue": queue, "paused": False}
    assert data(pop(api, queue, batch=2, wait=True, timeout=5000)) == [1, 2]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_unknown_queue_cannot_be_paused(api: httpx2.Client, queue: str, verb: str) -> None:
    answer = api.post(f"/api/v1/queues/{queue}/{verb}")
    assert (answer.status_code, answer.json()["code"]) == (404, "QUEUE_NOT_FOUND")


def test_a_name_with_nul_is_refused(api: httpx2.Client) -> None:
    assert api.delete("/api/v1/resources/queues/a%00b").status_code == 400
