from __future__ import annotations

import asyncio

from queen.engine import Engine
from queen.model import Message, PopRequest
from tests.support.work import numbers, push


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
    assert numbers(await asyncio.wait_for(waiting, 5)) == [1]
    assert await pop_from(engine, "nothing") == []
