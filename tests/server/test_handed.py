"""The memory of what was handed out: bounded, and never an answer of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import httpx2

from queen.ids import uuid7
from queen.model import Message
from queen.server.handed import HandedOut
from queen.server.wire import partition_id
from tests.server.calls import ack_batch, data, pop, push
from tests.server.running import run_broker


def batch(lease: UUID, partition: int, count: int) -> list[Message]:
    return [
        Message(
            queue="mail",
            partition="p",
            partition_id=partition,
            group="g",
            seq=seq,
            id=uuid7(),
            transaction_id=f"t{seq}",
            payload="1",
            created_at=datetime.now(UTC),
            lease_id=lease,
        )
        for seq in range(1, count + 1)
    ]


def test_what_is_settled_or_lost_is_forgotten() -> None:
    handed, lease = HandedOut(), uuid7()
    lane = (str(lease), partition_id(1))
    handed.remember(batch(lease, 1, 3))
    assert handed.find(lane, "other") is None
    handed.settled(lane, 2)
    found = handed.find(lane, "g")
    assert found is not None
    assert found.seqs == {"t3": 3}
    handed.forget(lane)
    assert handed.find(lane, "g") is None


def test_the_oldest_go_first() -> None:
    handed = HandedOut(limit=10)
    leases = [uuid7() for _ in range(5)]
    for lease in leases:
        handed.remember(batch(lease, 1, 4))
    assert [handed.find((str(lease), partition_id(1)), "g") is not None for lease in leases] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_another_broker_gives_the_same_answers(database: str, tmp_path: Path) -> None:
    """One pops and the other is acknowledged to: it knows nothing, and answers alike."""
    with run_broker(database, tmp_path / "a") as one, run_broker(database, tmp_path / "b") as two:
        answers = []
        for queue, popping, acking in (("x", one, one), ("y", one, two)):
            with httpx2.Client(base_url=popping.url) as first, httpx2.Client(base_url=acking.url) as second:
                push(first, queue, 1, 2, 3)
                messages = pop(first, queue, batch=3)
                results = [*ack_batch(second, messages[:2]), *ack_batch(second, messages[2:])]
                results += ack_batch(second, messages)
                answers.append([{**result, "transactionId": "", "queueName": ""} for result in results])
                assert data(pop(first, queue)) == []
        assert answers[0] == answers[1]
