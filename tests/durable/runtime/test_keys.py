"""Keys of an instance, seen by itself, by others, and by its own code on replay."""

from __future__ import annotations

from typing import Any

from queen.durable import (
    Provider,
    Worker,
    WorkerSettings,
    WorkflowClient,
    WorkflowContext,
    WorkflowHandle,
    activity,
    workflow,
)
from queen.durable.testing import eventually


@activity
async def idle() -> None:
    """A worker without activities would leave the reading of keys to others."""


async def test_keys_are_read_by_their_instance_and_by_others(provider: Provider) -> None:
    live: list[bool] = []

    @workflow
    async def owner(ctx: WorkflowContext) -> list[object]:
        ctx.set_key("colour", "red")
        live.append(ctx.is_replaying)
        seen = [ctx.get_key("colour"), ctx.get_key("size")]
        await ctx.event("go")
        ctx.clear_key("colour")
        return [*seen, ctx.get_key("colour")]

    @workflow
    async def reader(ctx: WorkflowContext, other: str) -> list[object]:
        found = [await ctx.read_key_of(other, "colour"), await ctx.read_key_of(other, "size")]
        return [*found, await ctx.read_key_of("nobody", "colour")]

    forgetful = WorkerSettings(sticky_instances=0)
    async with Worker(provider, workflows=[owner, reader], activities=[idle], settings=forgetful):
        client = WorkflowClient(provider)
        handle = await client.start(owner, id="owner")
        await eventually(lambda: _has(handle, "colour"))
        assert await (await client.start(reader, "owner")).result(10) == ["red", None, None]
        await handle.raise_event("go")
        assert await handle.result(10) == ["red", None, None]
    assert live == [False, True], "the second turn replays what the first one ran"


async def _has(handle: WorkflowHandle[Any], key: str) -> bool:
    return await handle.key(key) is not None
