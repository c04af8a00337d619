from __future__ import annotations

import pytest

from queen.durable.model import InstanceFilter, PruneOptions
from queen.durable.provider import Provider
from tests.durable.conformance.story import begin, continue_as_new, finish
from tests.durable.stores import ManualClock


async def eternal(provider: Provider, instance: str, executions: int, clock: ManualClock) -> None:
    await begin(provider, instance)
    for number in range(2, executions + 1):
        clock.advance(1_000)
        await continue_as_new(provider, instance, number)


async def left(provider: Provider, instance: str) -> list[int]:
    return [execution.execution_id for execution in await provider.list_executions(instance)]


@pytest.mark.parametrize(
    ("keep", "kept"), [(None, [5]), (0, [5]), (1, [5]), (2, [4, 5]), (4, [2, 3, 4, 5]), (9, [1, 2, 3, 4, 5])]
)
async def test_the_newest_are_kept(provider: Provider, clock: ManualClock, keep: int | None, kept: list[int]) -> None:
    await eternal(provider, "a", 5, clock)
    counts = await provider.prune_executions("a", PruneOptions(keep_last=keep))
    assert (counts.instances, counts.executions, counts.events) == (1, 5 - len(kept), 5 - len(kept))
    assert await left(provider, "a") == kept
    assert len(await provider.read("a")) == 1


async def test_the_current_execution_is_kept_even_when_it_has_ended(provider: Provider, clock: ManualClock) -> None:
    await eternal(provider, "a", 2, clock)
    await finish(provider, "a", execution_id=2)
    await provider.prune_executions("a", PruneOptions(keep_last=0))
    assert await left(provider, "a") == [2]


async def test_both_conditions_must_hold(provider: Provider, clock: ManualClock) -> None:
    await eternal(provider, "a", 5, clock)
    options = PruneOptions(keep_last=2, completed_before_ms=clock() - 2_500)
    assert (await provider.prune_executions("a", options)).executions == 1
    assert await left(provider, "a") == [2, 3, 4, 5]


async def test_in_bulk_running_instances_are_included(provider: Provider, clock: ManualClock) -> None:
    await eternal(provider, "a", 3, clock)
    await eternal(provider, "b", 2, clock)
    await eternal(provider, "single", 1, clock)
    counts = await provider.prune_executions_bulk(InstanceFilter(), PruneOptions())
    assert (counts.instances, counts.executions) == (2, 3)
    assert [await left(provider, one) for one in ("a", "b", "single")] == [[3], [2], [1]]


async def test_in_bulk_by_ids(provider: Provider, clock: ManualClock) -> None:
    await eternal(provider, "a", 2, clock)
    await eternal(provider, "b", 2, clock)
    assert (await provider.prune_executions_bulk(InstanceFilter(instances=()), PruneOptions())).instances == 0
    assert (await provider.prune_executions_bulk(InstanceFilter(instances=("b",)), PruneOptions())).executions == 1
    assert [await left(provider, one) for one in ("a", "b")] == [[1, 2], [2]]
