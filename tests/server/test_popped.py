"""The answer of a pop is written by hand: it says what the described types say, whatever the messages hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from queen.ids import uuid7
from queen.model import Message
from queen.server.popped import PopAnswer, PoppedMessage, popped_body
from queen.server.wire import encode, micros, partition_id, raw

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, st.lists, max_leaves=5)


@st.composite
def batches(draw: st.DrawFn) -> list[Message]:
    """What one pop found: messages of some partitions, those of a partition in a row."""
    lease = draw(st.none() | st.uuids())
    shared: dict[str, Any] = {
        "queue": draw(TEXT),
        "group": draw(TEXT),
        "lease_id": lease,
        "lease_expires_at": lease and draw(TIMES),
    }
    found = []
    for partition in range(draw(st.integers(1, 3))):
        lane: dict[str, Any] = {
            "partition": draw(TEXT),
            "partition_id": partition,
            "retry_count": partition,
            "delivery_count": 2,
        }
        found += [
            Message(**shared, **lane, **draw(message), seq=seq, id=uuid7()) for seq in range(draw(st.integers(1, 3)))
        ]
    return found


message: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "transaction_id": TEXT,
        "payload": JSON.map(json.dumps),
        "created_at": TIMES,
        "trace_id": st.none() | st.uuids(),
        "parent_id": st.none() | st.uuids(),
        "producer_sub": st.none() | TEXT,
        "broken": st.none() | TEXT,
    }
)


def described(found: Sequence[Message], claimed: int | None) -> PopAnswer:
    """The same by way of the types."""
    first, lease = found[0], str(found[0].lease_id or "")
    messages = [
        PoppedMessage(
            UUID(str(one.id)),
            one.transaction_id,
            one.trace_id,
            raw(one.payload),
            one.producer_sub,
            micros(one.created_at),
            partition_id(one.partition_id),
            one.partition,
            lease,
            one.group,
            one.queue,
            one.seq,
            one.retry_count,
            one.delivery_count,
            one.parent_id,
            one.broken,
        )
        for one in found
    ]
    return PopAnswer(
        True,
        first.queue,
        first.partition,
        partition_id(first.partition_id),
        lease,
        first.group,
        messages,
        claimed,
        micros(first.lease_expires_at) if first.lease_expires_at else None,
    )


@given(batches(), st.none() | st.integers(1, 3))
def test_it_says_what_the_types_say(found: list[Message], claimed: int | None) -> None:
    assert msgspec.json.decode(popped_body(found, claimed)) == msgspec.json.decode(encode(described(found, claimed)))
