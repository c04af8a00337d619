"""Instances are found by what they say of themselves, and by time."""

from __future__ import annotations

from typing import Any

import pytest

from queen.durable import Provider, Worker, WorkflowClient, WorkflowContext, WorkflowFailed, workflow
from queen.durable.model import InstanceQuery
from queen.durable.testing import eventually


@workflow
async def order(ctx: WorkflowContext, state: str) -> int:
    ctx.set_attribute("state", state)
    await ctx.event("go", buffered=True)
    ctx.set_attribute("state", "done")
    ctx.set_attribute("customer", None) if state == "secret" else None
    return len(await ctx.settle())


async def found(provider: Provider, **attributes: Any) -> list[str]:
    page = await provider.list_instances(InstanceQuery(attributes=attributes))
    return sorted(each.instance for each in page.instances)


async def test_instances_are_found_by_their_attributes(provider: Provider) -> None:
    async with Worker(provider, workflows=[order]):
        client = WorkflowClient(provider)
        given: list[tuple[str, str, dict[str, Any]]] = [
            ("a", "new", {"customer": "ann", "cents": 5}),
            ("b", "new", {"customer": "bo"}),
            ("c", "secret", {"customer": "ann"}),
        ]
        handles = [await client.start(order, state, id=name, attributes=said) for name, state, said in given]
        await eventually(lambda: _count(provider, 3))
        assert await found(provider, customer="ann") == ["a", "c"]
        assert await found(provider, customer="ann", state="new") == ["a"]
        assert await found(provider, cents=5) == ["a"]
        assert await found(provider, cents="5") == []
        assert await found(provider, customer="nobody") == []
        for handle in handles:
            await handle.raise_event("go")
            await handle.result(10)
        assert await found(provider, state="done") == ["a", "b", "c"]
        assert await found(provider, state="new") == []
        assert await found(provider, customer="ann") == ["a"], "it was taken away from c"
        page = await client.list(attributes={"customer": "bo"}, status="Completed")
        assert [each.instance for each in page.instances] == ["b"]


async def _count(provider: Provider, count: int) -> bool:
    page = await provider.list_instances()
    return len([each for each in page.instances if each.status == "Running"]) == count


async def test_attributes_have_limits_of_their_own(provider: Provider) -> None:
    @workflow
    async def many(ctx: WorkflowContext, count: int) -> None:
        for number in range(150):
            ctx.set_key(f"k{number}", number)
        for number in range(count):
            ctx.set_attribute(f"a{number}", number)

    async with Worker(provider, workflows=[many]):
        client = WorkflowClient(provider)
        await (await client.start(many, 50)).result(10)
        with pytest.raises(WorkflowFailed, match=r"attribute count \(51\) exceeds limit \(50\)"):
            await (await client.start(many, 51)).result(10)
        with pytest.raises(ValueError, match=r"attribute 'long' \(1027 bytes\) exceeds limit \(1024 bytes\)"):
            await client.start(many, 1, attributes={"long": "x" * 1025})
