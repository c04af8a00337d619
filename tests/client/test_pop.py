from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from msgspec import Struct

import queen


class Order(Struct):
    number: int


@dataclass
class Line:
    item: str
    count: int = 1


async def test_a_type_decodes_the_payload(q: queen.Client) -> None:
    await q.push("orders", {"number": 7})
    await q.push("lines", {"item": "pen"})
    (order,) = await q.pop("orders", data=Order)
    (line,) = await q.pop("lines", data=Line)
    assert (order.data, line.data) == (Order(7), Line("pen"))
    assert order.payload.replace(" ", "") == '{"number":7}'


async def test_a_payload_that_does_not_fit_says_where(q: queen.Client) -> None:
    await q.push("orders", {"number": "seven"})
    (order,) = await q.pop("orders", data=Order)
    with pytest.raises(queen.DecodeError, match=r"does not fit Order: Expected `int`, got `str` - at `\$.number`"):
        _ = order.data


async def test_batch_and_partitions_limit_what_is_taken(q: queen.Client) -> None:
    for customer in "abc":
        await q.push_many("orders", [1, 2], partition=customer)
    assert len(await q.pop("orders", batch=100)) == 2
    rest = await q.pop("orders", batch=3, partitions=5)
    assert len(rest) == 3
    assert len({message.lease_id for message in rest}) == 1


async def test_a_wait_ends_with_the_first_message(q: queen.Client) -> None:
    waiting = asyncio.create_task(q.pop("orders", wait=20))
    await q.push("orders", 1)
    assert [message.data for message in await waiting] == [1]
    assert await q.pop("orders", wait=0.05) == []


async def test_one_partition_or_one_namespace(q: queen.Client) -> None:
    await q.push("orders", 1, partition="a")
    await q.push("orders", 2, partition="b")
    assert [message.data for message in await q.pop("orders", partition="b")] == [2]
    await q.queues.configure("low", namespace="shop", task="mail", priority=1)
    await q.queues.configure("high", namespace="shop", task="mail", priority=9)
    await q.push("low", "low")
    await q.push("high", "high")
    (first,) = await q.pop(namespace="shop")
    assert (first.data, first.queue) == ("high", "high")
    (second,) = await q.pop(namespace="shop", task="mail")
    assert second.data == "low"
    with pytest.raises(queen.InvalidRequest, match="pop needs a queue"):
        await q.pop()


async def test_groups_start_where_they_ask_to(q: queen.Client) -> None:
    await q.push_many("orders", ["old", "older"])
    assert await q.pop("orders", group="fresh", start="new") == []
    assert len(await q.pop("orders", group="everything", batch=9)) == 2
    assert len(await q.pop("orders", group="since", batch=9, start=datetime(2020, 1, 1, tzinfo=UTC))) == 2
    await q.push("orders", "new")
    assert [message.data for message in await q.pop("orders", group="fresh", batch=9)] == ["new"]


async def test_auto_ack_leaves_nothing_to_acknowledge(q: queen.Client) -> None:
    await q.push("orders", 1)
    (message,) = await q.pop("orders", auto_ack=True)
    assert message.lease_id is None
    assert await q.ack(message) == []
    assert await q.pop("orders") == []


async def test_what_is_out_of_range_is_refused(q: queen.Client) -> None:
    with pytest.raises(queen.InvalidRequest) as caught:
        await q.pop("orders", batch=0)
    assert caught.value.code == "INVALID_BATCH"
