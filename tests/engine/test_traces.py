from __future__ import annotations

import pytest

from queen import errors
from queen.engine import Engine, KeyRing
from queen.engine.reading import Window
from queen.engine.traces import MAX_NAMES, Traces
from queen.ids import uuid7
from queen.model import NewMessage
from tests.support.work import acks, pop, push


@pytest.fixture
def traces(engine: Engine) -> Traces:
    return Traces(engine.database, engine.keys)


async def test_events_of_a_message_come_oldest_first(engine: Engine, traces: Traces) -> None:
    (pushed,) = await push(engine, 1, transaction_id="m")
    for number in range(3):
        await traces.record(
            pushed.partition_id, "m", f'{{"step": {number}}}', group="g", event_type="step", names=["b", "a", "a"]
        )
    found = await traces.of_message(pushed.partition_id, "m")
    assert [each.data for each in found] == [f'{{"step": {number}}}' for number in range(3)]
    assert {(each.group, each.event_type, each.message_id) for each in found} == {("g", "step", pushed.id)}
    assert found[0].names == ["a", "b"]
    assert await traces.of_message(pushed.partition_id, "another") == []


async def test_an_unknown_message_cannot_be_traced(engine: Engine, traces: Traces) -> None:
    (pushed,) = await push(engine, 1)
    with pytest.raises(errors.MessageNotFound, match="Message not found"):
        await traces.record(pushed.partition_id, "nope", "{}")
    with pytest.raises(errors.MessageNotFound):
        await traces.record(10**9, pushed.transaction_id, "{}")


@pytest.mark.parametrize("names", [[""], ["x" * 513], ["a\0"], ["n"] * (MAX_NAMES + 1)])
async def test_names_have_limits(engine: Engine, traces: Traces, names: list[str]) -> None:
    (pushed,) = await push(engine, 1)
    with pytest.raises(errors.InvalidRequest, match="traceNames"):
        await traces.record(pushed.partition_id, pushed.transaction_id, "{}", names=names)


async def test_events_under_one_name_page_by_page(engine: Engine, traces: Traces) -> None:
    pushed = await push(engine, *range(5))
    for each in pushed:
        await traces.record(each.partition_id, each.transaction_id, "{}", names=["order-1"])
    await traces.record(pushed[0].partition_id, pushed[0].transaction_id, "{}", names=["order-2"])
    first, total = await traces.by_name("order-1", Window(limit=3))
    second, _ = await traces.by_name("order-1", Window(limit=3, cursor=first.next_cursor))
    assert total == 5
    assert [each.payload for each in first.items + second.items] == [f'{{"n": {n}}}' for n in range(5)]
    assert second.next_cursor is None
    assert (first.items[0].queue, first.items[0].partition) == ("q", "p")
    by_offset, _ = await traces.by_name("order-1", Window(limit=3, offset=3))
    assert by_offset.items == second.items
    assert await traces.by_name("nothing", Window()) == (type(first)([]), 0)


async def test_an_event_outlives_the_payload_of_its_message(engine: Engine, traces: Traces) -> None:
    (pushed,) = await push(engine, 1)
    await traces.record(pushed.partition_id, pushed.transaction_id, "{}", names=["n"])
    await engine.delete_message(pushed.partition_id, pushed.transaction_id)
    page, total = await traces.by_name("n", Window())
    assert (total, [each.payload for each in page.items]) == (1, [None])


async def test_names_with_how_often_and_when(engine: Engine, traces: Traces) -> None:
    pushed = await push(engine, 1, 2)
    for each in (*pushed, pushed[0]):
        await traces.record(each.partition_id, each.transaction_id, "{}", names=["often"])
    await traces.record(pushed[0].partition_id, pushed[0].transaction_id, "{}", names=["once"])
    found, total = await traces.names(Window(limit=50))
    assert [(each.name, each.traces, each.messages) for each in found] == [("once", 1, 1), ("often", 3, 2)]
    assert total == 2
    assert [each.name for each in (await traces.names(Window(limit=1, offset=1)))[0]] == ["often"]


async def test_every_message_of_a_trace_id_with_its_deliveries(engine: Engine, traces: Traces) -> None:
    trace = uuid7()
    (parent,) = await push(engine, 1, queue="in", trace_id=trace)
    await engine.ack(acks(await pop(engine, queue="in"), "failed"))
    await engine.ack_messages(await pop(engine, queue="in"))
    await engine.push([NewMessage(queue="out", payload="2", trace_id=trace, parent_id=parent.id)])
    await push(engine, 3, queue="out")
    await pop(engine, queue="out", partition="Default")
    found = await traces.by_id(trace)
    assert [(each.queue, each.payload, each.parent_id) for each in found] == [
        ("in", '{"n": 1}', None), ("out", "2", parent.id),
    ]  # fmt: skip
    assert [[delivery.outcome for delivery in each.deliveries] for each in found] == [
        ["failed", "completed"], ["leased"],
    ]  # fmt: skip
    assert await traces.by_id(uuid7()) == []


async def test_encrypted_payloads_are_opened(database: str) -> None:
    keys = KeyRing(["a" * 64])
    trace = uuid7()
    async with Engine.connect(database, keys=keys) as engine:
        await engine.queues.configure("q", {"encryption_enabled": True})
        (pushed,) = await push(engine, 7, trace_id=trace)
        traces = Traces(engine.database, keys)
        await traces.record(pushed.partition_id, pushed.transaction_id, "{}", names=["n"])
        assert [each.payload for each in await traces.by_id(trace)] == ['{"n": 7}']
        page, _ = await traces.by_name("n", Window())
        assert [each.payload for each in page.items] == ['{"n": 7}']
        sealed = await Traces(engine.database, KeyRing(["b" * 64])).by_id(trace)
        assert '"encrypted"' in sealed[0].payload
