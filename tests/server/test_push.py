from __future__ import annotations

import httpx2


def test_a_push_is_stored(client: httpx2.Client) -> None:
    answer = client.post(
        "/api/v1/push", json={"items": [{"queue": "mail", "payload": {"n": 1}, "transactionId": "m-1"}]}
    )
    assert answer.status_code == 201, answer.text
    (result,) = answer.json()
    assert (result["index"], result["status"], result["transaction_id"]) == (0, "queued", "m-1")


def test_health(client: httpx2.Client) -> None:
    assert client.get("/health").json()["status"] == "healthy"
