"""A group's first pop of a queue with very many partitions: answered soon, and it starts just where it was asked to."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.server.calls import data, pop

PARTITIONS = 5000


def push_to_each(client: httpx2.Client, queue: str, payload: Any) -> None:
    for start in range(0, PARTITIONS, 1000):
        items = [
            {"queue": queue, "partition": f"p{number}", "payload": payload} for number in range(start, start + 1000)
        ]
        assert client.post("/api/v1/push", json={"items": items}).status_code == 201


@pytest.mark.parametrize("start", ["new", "time"])
def test_a_new_group_starts_at_once_on_five_thousand_partitions(api: httpx2.Client, queue: str, start: str) -> None:
    push_to_each(api, queue, "old")
    now = datetime.now(UTC).isoformat()
    query: dict[str, Any] = {"subscriptionMode": "new"} if start == "new" else {"subscriptionFrom": now}
    began = time.monotonic()
    assert pop(api, queue, batch=1000, consumerGroup="late", **query) == []
    spent = time.monotonic() - began
    sys.stdout.write(f"first contact of a group with {PARTITIONS} partitions ({start}): {spent:.2f} s\n")
    assert spent < 10
    push_to_each(api, queue, "new")
    found: list[dict[str, Any]] = []
    while messages := pop(api, queue, batch=1000, partitions=1000, consumerGroup="late", autoAck=True):
        found += messages
    assert data(found) == ["new"] * PARTITIONS
    assert len({message["partition"] for message in found}) == PARTITIONS
