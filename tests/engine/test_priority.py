from __future__ import annotations

import asyncio

import pytest

from queen.db.pool import Database
from queen.engine import Engine
from queen.model import QUEUE_MODE, Message, PopRequest
from tests.support.work import count_calls, numbers, push


async def pop_from(
    engine: Engine, namespace: str | None = None, task: str | None = None, wait: float = 0
) -> list[Message]:
    """Pop one message of a namespace and/or task."""
    return await engine.pop_matching(namespace, task, PopRequest(queue="", wait=wait))


async def test_higher_priority_first(engine: Engine) -> None:
    for priority, name in enumerate(["low", "mid", "high"]):
        await engine.queues.configure(f"shop.{name}", {"priority": priority}, namespace="shop", task=name)
        await push(engine, priority, 10 + priority, queue=f"shop.{name}")
    order = []
    while got := await pop_from(engine, "shop"):
        order += numbers(got)
        await engine.ack_messages(got)
    assert order == [2, 12, 1, 11, 0, 10]


async def test_by_task_over_namespaces(engine: Engine) -> None:
    for namespace in ("a", "b"):
        await engine.queues.configure(namespace, {}, namespace=namespace, task="mail")
        await push(engine, 1, queue=namespace)
    await push(engine, 2, queue="other")
    queues = []
    while got := await pop_from(engine, task="mail"):
        queues.append(got[0].queue)
    assert queues == ["a", "b"]


async def test_paused_queues_are_left_out(engine: Engine) -> None:
    for name in ("a", "b"):
        await engine.queues.configure(name, {"priority": (name == "a" and 5) or 0}, namespace="n")
        await push(engine, 1, queue=name)
    await engine.queues.pause("a")
    assert [m.queue for m in await pop_from(engine, "n")] == ["b"]


async def test_a_long_poll_over_queues(engine: Engine) -> None:
    await engine.queues.configure("a", {}, namespace="n")
    waiting = asyncio.create_task(pop_from(engine, "n", wait=10))
    await asyncio.wait([waiting], timeout=0.1)
    await push(engine, 1, queue="a")
    assert numbers(await asyncio.wait_for(waiting, 9)) == [1]
    assert await pop_from(engine, "nothing") == []


@pytest.mark.parametrize("group", [QUEUE_MODE, "billing"])
async def test_a_poll_over_many_queues_is_few_calls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """One to see where something is, one to take it; however many queues there are and however many ask."""
    for number in range(200):
        await engine.queues.configure(f"n{number}", {}, namespace="n")
    request = PopRequest(queue="", group=group)
    assert await engine.pop_matching("n", None, request) == []  # the group meets every queue
    calls = count_calls(engine, monkeypatch)
    assert await engine.pop_matching("n", None, request) == []
    assert calls == {"engine/matching_queues": 1}
    await push(engine, 1, queue="n150")
    calls.clear()
    assert numbers(await engine.pop_matching("n", None, request)) == [1]
    assert calls == {"engine/matching_queues": 1, "engine/pop": 1}
    calls.clear()
    await asyncio.gather(*(engine.pop_matching("n", None, request) for _ in range(50)))
    assert calls["engine/matching_queues"] <= 2
    assert calls["engine/pop"] == 0


async def test_a_long_poll_over_queues_hears_of_a_push(database: str) -> None:
    async with Engine(Database(database), listen_url=None, poll=60) as patient:
        await patient.queues.configure("a", {}, namespace="n")
        waiting = asyncio.create_task(pop_from(patient, "n", wait=50))
        await asyncio.wait([waiting], timeout=0.5)
        await push(patient, 1, queue="a")
        assert numbers(await asyncio.wait_for(waiting, 20)) == [1]
        waiting = asyncio.create_task(pop_from(patient, "n", wait=50))
        await asyncio.wait([waiting], timeout=0.2)
        await asyncio.wait_for(patient.stop(), 20)
        assert await asyncio.wait_for(waiting, 20) == []
