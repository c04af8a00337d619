"""Updates are answered, queries are asked of the code, and a program without a loop can do both."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queen.durable import (
    Provider,
    SyncWorkflowClient,
    Worker,
    WorkflowClient,
    WorkflowContext,
    activity,
    open_provider,
    workflow,
)
from queen.durable.errors import QueryNotFound, UpdateRefused
from queen.durable.testing import eventually


@activity
async def double(number: int) -> int:
    return number * 2


@workflow
async def till(ctx: WorkflowContext, rounds: int) -> int:
    """Takes numbers up to ten, and answers each with the sum so far."""
    total = ctx.get_key("total") or 0
    ctx.on_query("total", lambda: total)
    ctx.on_query("plus", lambda number: total + number)
    for _ in range(rounds):
        request = await ctx.update("add", int)
        if request.value > 10:
            request.refuse(f"{request.value} is too much")
        elif request.value == 0:
            return int(total)
        else:
            total += await ctx.activity(double, request.value)
            ctx.set_key("total", total)
            request.answer({"total": total})
    return ctx.continue_as_new(rounds)


async def test_an_update_gets_its_answer(provider: Provider) -> None:
    async with Worker(provider, workflows=[till], activities=[double]):
        handle = await WorkflowClient(provider).start(till, 3, id="t")
        await eventually(lambda: _begun(provider, "t"))
        answers = [await handle.update("add", number) for number in range(1, 8)]
        assert [each["total"] for each in answers] == [2, 6, 12, 20, 30, 42, 56], "over two continue-as-new"
        with pytest.raises(UpdateRefused, match="11 is too much"):
            await handle.update("add", 11)
        first = await handle.update("add", 1, update_id="once")
        assert await handle.update("add", 1, update_id="once") == first, "the same update, not another one"
        with pytest.raises(UpdateRefused, match="workflow 't' ended without an answer"):
            await handle.update("add", 0)
        assert await handle.result(10) == 58


async def _begun(provider: Provider, instance: str) -> bool:
    return bool(await provider.read(instance))


async def test_answers_do_not_pile_up(provider: Provider) -> None:
    @workflow
    async def echo(ctx: WorkflowContext) -> None:
        for number in range(100):
            ctx.set_key(f"own-{number}", number)
        while True:
            request = await ctx.update("say")
            request.answer(request.value)

    async with Worker(provider, workflows=[echo]):
        handle = await WorkflowClient(provider).start(echo)
        await eventually(lambda: _begun(provider, handle.id))
        for start in range(0, 250, 50):
            said = await asyncio.gather(*(handle.update("say", start + number) for number in range(50)))
            assert sorted(said) == list(range(start, start + 50))
        assert len(await provider.get_kv_all_values(handle.id)) == 200, "its own keys and a hundred answers"


async def test_a_query_asks_the_code_as_it_stands(provider: Provider) -> None:
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[till], activities=[double]):
        handle = await client.start(till, 2, id="t")
        await eventually(lambda: _begun(provider, "t"))
        for number in (1, 2, 3):
            await handle.update("add", number)
    assert await handle.query("total") == 12, "no worker runs any more"
    assert await handle.query("plus", 5) == 17
    with pytest.raises(QueryNotFound, match="there is no query 'minus' yet; the code answers: plus, total"):
        await handle.query("minus")
    with pytest.raises(TypeError, match="a query needs the workflow's code"):
        await client.handle("till", "t").query("total")


async def test_workflows_send_to_each_other(provider: Provider) -> None:
    @workflow
    async def asks(ctx: WorkflowContext, number: int) -> int:
        ctx.send("server", "requests", {"reply_to": ctx.instance_id, "number": number})
        return await ctx.receive("answers", int)

    @workflow
    async def serves(ctx: WorkflowContext, count: int) -> None:
        for _ in range(count):
            request: dict[str, Any] = await ctx.receive("requests", dict[str, Any])
            ctx.send(request["reply_to"], "answers", await ctx.activity(double, request["number"]))

    async with Worker(provider, workflows=[asks, serves], activities=[double]):
        client = WorkflowClient(provider)
        server = await client.start(serves, 5, id="server")
        await eventually(lambda: _begun(provider, "server"))
        handles = [await client.start(asks, number) for number in range(5)]
        assert [await handle.result(10) for handle in handles] == [0, 2, 4, 6, 8]
        await server.result(10)


async def test_a_program_without_a_loop(store_url: str) -> None:
    def program() -> list[Any]:
        with SyncWorkflowClient(store_url) as client:
            handle = client.start(till, 5, id="s")
            total = handle.update("add", 4)
            found = [total, handle.query("total"), handle.key("total"), handle.state().status]
            handle.send("nobody reads this", 1)
            assert handle.fork("s2").id == "s2"
            handle.cancel("enough")
            return found

    async with (
        await open_provider(store_url) as provider,
        Worker(provider, workflows=[till], activities=[double]),
    ):
        assert await asyncio.to_thread(program) == [{"total": 8}, 8, 8, "Running"]
        handle = WorkflowClient(provider).handle(till, "s")
        await eventually(lambda: _status(provider, "s", "Cancelled"))
        assert (await handle.state()).error == "canceled: enough"


async def _status(provider: Provider, instance: str, wanted: str) -> bool:
    info = await provider.get_instance_info(instance)
    return info is not None and info.status == wanted
