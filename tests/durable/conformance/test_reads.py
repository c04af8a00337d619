from __future__ import annotations

import pytest

from queen.durable.events import CarriedEvent, OrchestrationStarted
from queen.durable.model import InstanceQuery, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    begin,
    completed,
    fetch,
    fetch_task,
    finish,
    key_cleared,
    key_set,
    raised,
    refusal,
    scheduled,
    start,
    started,
    task,
    timer,
    told,
)
from tests.durable.stores import ManualClock


async def child_of(provider: Provider, parent: str, child: str) -> None:
    await provider.enqueue_for_orchestrator(start(child, parent_instance=parent))
    item = await fetch(provider)
    assert item.instance == child
    commit = TurnCommit(execution_id=1, history_delta=(started(child),), metadata=told(parent_instance=parent))
    await provider.ack_orchestration_item(item.token, commit)


async def ids(provider: Provider, **query: object) -> list[str]:
    page = await provider.list_instances(InstanceQuery(**query))  # type: ignore[arg-type]
    return [info.instance for info in page.instances]


async def test_instances_are_listed_newest_first_in_pages(provider: Provider) -> None:
    for number in range(7):
        await begin(provider, f"i{number}")
    seen: list[str] = []
    cursor = None
    pages = 0
    while True:
        page = await provider.list_instances(InstanceQuery(limit=3, cursor=cursor))
        seen += [info.instance for info in page.instances]
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"i{number}" for number in reversed(range(7))]
    assert pages == 3
    assert await refusal(provider.list_instances(InstanceQuery(cursor="somewhere"))) == "invalid"


async def test_instances_are_found_by_what_is_known_of_them(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "order-1", metadata=told(trace_id="t1"))
    clock.advance(1_000)
    await begin(provider, "order-2")
    await child_of(provider, "order-2", "child")
    await finish(provider, "order-1")
    middle = clock()
    assert await ids(provider, status="Completed") == ["order-1"]
    assert await ids(provider, status="Running") == ["child", "order-2"]
    assert await ids(provider, status="Failed") == []
    assert await ids(provider, name="Flow") == ["child", "order-2", "order-1"]
    assert await ids(provider, name="Other") == []
    assert await ids(provider, parent_instance="order-2") == ["child"]
    assert await ids(provider, trace_id="t1") == ["order-1"]
    assert await ids(provider, id_prefix="order-") == ["order-2", "order-1"]
    assert await ids(provider, id_prefix="order_") == []
    assert await ids(provider, created_from_ms=middle) == ["child", "order-2"]
    assert await ids(provider, created_before_ms=middle) == ["order-1"]


async def test_metrics_count_by_the_current_execution(provider: Provider) -> None:
    metrics = await provider.get_system_metrics()
    assert (metrics.instances, metrics.events, metrics.running) == (0, 0, 0)
    await begin(provider, "a", [scheduled("a", 2)])
    await begin(provider, "b")
    await begin(provider, "c")
    await finish(provider, "b")
    await finish(provider, "c", "Failed")
    metrics = await provider.get_system_metrics()
    assert (metrics.instances, metrics.executions, metrics.events) == (3, 3, 4)
    assert (metrics.running, metrics.completed, metrics.failed) == (1, 1, 1)


async def test_depths_count_what_nobody_holds(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", orchestrator_items=[timer("a", clock() + 60_000)], worker_items=[task("a", 2)])
    await provider.enqueue_for_orchestrator(raised("a"))
    await provider.enqueue_for_worker(task("a", 3))
    depths = await provider.get_queue_depths()
    assert (depths.orchestrator, depths.worker, depths.timer) == (2, 2, 0)
    await fetch(provider)
    await fetch_task(provider)
    depths = await provider.get_queue_depths()
    assert (depths.orchestrator, depths.worker) == (0, 1)
    clock.advance(5_000)
    depths = await provider.get_queue_depths()
    assert (depths.orchestrator, depths.worker) == (2, 2)


async def test_stats_of_one_instance(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider)
    opening = OrchestrationStarted(
        event_id=1,
        instance="a",
        execution_id=1,
        timestamp_ms=1,
        name="Flow",
        orchestration_version="1.0.0",
        input="é",
        carried_events=(CarriedEvent("inbox", "1"), CarriedEvent("inbox", "2")),
    )
    events = (opening, key_set("a", 2, "k", "é"), key_set("a", 3, "gone", "x"), key_cleared("a", 4, "gone"))
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, history_delta=events, metadata=told()))
    stats = await provider.get_instance_stats("a")
    assert stats is not None
    assert (stats.event_count, stats.carried_events, stats.kv_keys, stats.kv_bytes) == (4, 2, 1, 3)
    assert stats.history_bytes > 200


async def test_families(provider: Provider) -> None:
    await begin(provider, "root")
    await child_of(provider, "root", "kid")
    await child_of(provider, "root", "kid2")
    await child_of(provider, "kid", "grandkid")
    assert await provider.list_children("root") == ["kid", "kid2"]
    assert await provider.list_children("grandkid") == []
    assert await provider.get_parent_id("grandkid") == "kid"
    assert await provider.get_parent_id("root") is None
    assert (await provider.get_instance_tree("root")).ids == ["root", "kid", "kid2", "grandkid"]
    assert (await provider.get_instance_tree("kid")).ids == ["kid", "grandkid"]
    assert (await provider.get_instance_tree("nobody")).ids == ["nobody"]


async def test_the_next_due_time_is_that_of_either_queue(provider: Provider, clock: ManualClock) -> None:
    assert await provider.next_due_ms() is None
    await begin(provider, "a", [scheduled("a", 2)], orchestrator_items=[timer("a", clock() + 60_000)])
    assert await provider.next_due_ms() == clock() + 60_000
    await provider.enqueue_for_worker(task("a", 2))
    assert await provider.next_due_ms() == clock()
    found = await fetch_task(provider, lock_ms=1_000)
    assert await provider.next_due_ms() == clock() + 1_000
    await provider.ack_work_item(found.token, completed("a"))
    assert await provider.next_due_ms() == clock()


@pytest.mark.parametrize("instance", ["a b", "ünï", "'; drop table instances; --", "x" * 600, "a::sub::2"])
async def test_any_text_is_an_instance_id(provider: Provider, instance: str) -> None:
    await begin(provider, instance)
    assert await provider.read(instance) == [started(instance)]
    assert (await provider.delete_instance(instance, force=True)).instances == 1
