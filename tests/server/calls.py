"""The contract's calls, as tests make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2

Json = dict[str, Any]


def configure(client: httpx2.Client, queue: str, **options: Any) -> Json:
    answer = client.post("/api/v1/configure", json={"queue": queue, "options": options})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def push(client: httpx2.Client, queue: str, *payloads: Any, partition: str = "Default", **fields: Any) -> list[Json]:
    items = [{"queue": queue, "partition": partition, "payload": payload, **fields} for payload in payloads]
    answer = client.post("/api/v1/push", json={"items": items})
    assert answer.status_code == 201, answer.text
    found: list[Json] = answer.json()
    return found


def pop(client: httpx2.Client, queue: str, partition: str | None = None, **query: Any) -> list[Json]:
    path = f"/api/v1/pop/queue/{queue}" + (f"/partition/{partition}" if partition else "")
    answer = client.get(path, params={name: _text(value) for name, value in query.items()})
    assert answer.status_code in (200, 204), answer.text
    if answer.status_code == 204:
        assert answer.content == b""
        return []
    found: list[Json] = answer.json()["messages"]
    return found


def ack(client: httpx2.Client, message: Json, status: str = "completed", **fields: Any) -> Json:
    body = {
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "leaseId": message["leaseId"],
        "consumerGroup": message["consumerGroup"],
        "status": status,
        **fields,
    }
    answer = client.post("/api/v1/ack", json=body)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()
    assert isinstance(found, dict)
    return found


def ack_batch(
    client: httpx2.Client, messages: Sequence[Json], status: str = "completed", group: str | None = None, **fields: Any
) -> list[Json]:
    items = [
        {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": message["leaseId"],
            "status": status,
            **fields,
        }
        for message in messages
    ]
    answer = client.post("/api/v1/ack/batch", json={"acknowledgments": items, "consumerGroup": group})
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()
    return found


def data(messages: Sequence[Json]) -> list[Any]:
    return [message["data"] for message in messages]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
