"""What is too old goes by itself: a pop after it is empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.calls import ack_batch, configure, data, pop, push
from tests.server.running import run_broker
from tests.support.wait import wait_for


@pytest.fixture
def quick(database: str, tmp_path: Path) -> Iterator[httpx2.Client]:
    """A broker that cleans up several times a second."""
    with (
        run_broker(database, tmp_path, retention_interval=0.3, eviction_interval=0.3) as broker,
        httpx2.Client(base_url=broker.url, timeout=40) as client,
    ):
        yield client


def kept(client: httpx2.Client, queue: str) -> list[Any]:
    """The numbers of the messages that a queue still has."""
    answer = client.get("/api/v1/messages", params={"queue": queue})
    assert answer.status_code == 200, answer.text
    return [message["transactionId"] for message in answer.json()["messages"]]


def test_messages_past_their_retention_are_not_handed_out(quick: httpx2.Client) -> None:
    configure(quick, "short", retentionEnabled=True, retentionSeconds=1)
    configure(quick, "long", retentionEnabled=True, retentionSeconds=3600)
    configure(quick, "off", retentionEnabled=False, retentionSeconds=1)
    for queue in ("short", "long", "off"):
        push(quick, queue, 1)
    wait_for(lambda: kept(quick, "short") == [], limit=15, pause=0.1)
    assert pop(quick, "short") == []
    assert data(pop(quick, "long")) == data(pop(quick, "off")) == [1]


def test_messages_nobody_took_in_time_are_evicted(quick: httpx2.Client) -> None:
    configure(quick, "known", maxWaitTimeSeconds=1)
    configure(quick, "untouched", maxWaitTimeSeconds=1)
    configure(quick, "long", maxWaitTimeSeconds=3600)
    assert pop(quick, "known") == []
    for queue in ("known", "untouched", "long"):
        push(quick, queue, 1)

    def evicted() -> bool:
        letters = quick.get("/api/v1/dlq", params={"queue": "known"}).json()["messages"]
        return [letter["data"] for letter in letters] == [1]

    # A group that waits for them gets dead letters; who comes later finds nothing all the same.
    wait_for(evicted, limit=15, pause=0.1)
    assert pop(quick, "known") == pop(quick, "untouched") == []
    assert data(pop(quick, "long")) == [1]


def test_completed_messages_have_a_retention_of_their_own(quick: httpx2.Client) -> None:
    configure(quick, "mail", retentionEnabled=True, completedRetentionSeconds=1)
    push(quick, "mail", 1, transactionId="done")
    push(quick, "mail", 2, transactionId="waiting")
    ack_batch(quick, pop(quick, "mail"))
    wait_for(lambda: kept(quick, "mail") == ["waiting"], limit=15, pause=0.1)
    assert data(pop(quick, "mail")) == [2]
