from __future__ import annotations

import pytest

from queen.durable.model import TagFilter
from queen.durable.provider import Provider
from tests.durable.conformance.story import LOCK_MS, begin, fetch_task, no_task, scheduled, task
from tests.durable.stores import ManualClock

TAGS = (None, "gpu", "eu", "us")


async def put(provider: Provider) -> None:
    for number, tag in enumerate(TAGS):
        await provider.enqueue_for_worker(task("a", number, tag=tag))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (TagFilter.default_only(), [None]),
        (TagFilter.only("gpu"), ["gpu"]),
        (TagFilter.only("us", "gpu", "absent"), ["gpu", "us"]),
        (TagFilter.default_and("eu"), [None, "eu"]),
        (TagFilter.any(), [None, "gpu", "eu", "us"]),
        (TagFilter.none(), []),
    ],
)
async def test_each_filter_takes_what_it_says(provider: Provider, tags: TagFilter, expected: list[str | None]) -> None:
    await put(provider)
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=9, tags=tags)
    assert [item.task.tag for item in found] == expected


async def test_the_default_is_untagged_only(provider: Provider) -> None:
    await put(provider)
    assert (await fetch_task(provider)).task.tag is None
    assert await no_task(provider)


async def test_a_tag_survives_the_whole_way(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2, tag="gpu")])
    gpu = TagFilter.only("gpu")
    found = await fetch_task(provider, tags=gpu)
    await provider.abandon_work_item(found.token, delay_ms=100)
    clock.advance(100)
    assert await no_task(provider)
    assert (await fetch_task(provider, tags=gpu)).task.tag == "gpu"
    clock.advance(LOCK_MS)
    assert await no_task(provider)
    assert (await fetch_task(provider, tags=gpu)).task.tag == "gpu"


async def test_order_holds_across_the_tags_of_a_filter(provider: Provider, clock: ManualClock) -> None:
    for number, (tag, priority) in enumerate([("eu", 0), (None, 0), ("eu", 0), ("us", 1)]):
        await provider.enqueue_for_worker(task("a", number, tag=tag, priority=priority))
        clock.advance(1)
    both = TagFilter.default_and("eu", "us")
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=3, tags=both)
    assert [item.task.activity_id for item in found] == [3, 0, 1]
