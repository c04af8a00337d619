"""Errors keep their cause: types, causes and tracebacks, in history, at the client, and in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    ActivityFailed,
    NonRetryable,
    Provider,
    RetryPolicy,
    Worker,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    activity,
    workflow,
)
from queen.durable.events import ApplicationFailure
from queen.durable.testing import eventually
from tests.durable.stores import Address

RUNS: list[Any] = []


class CardDeclined(ValueError):
    """What the bank says."""


@activity
async def pays(how: str) -> str:
    RUNS.append(how)
    if how == "never":
        raise NonRetryable("the account is closed")
    try:
        raise ConnectionError("the bank is away")
    except ConnectionError as error:
        raise CardDeclined(how) from error


async def test_an_activitys_error_arrives_whole(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    @workflow
    async def order(ctx: WorkflowContext) -> dict[str, Any]:
        try:
            await ctx.activity(pays, "once")
        except ActivityFailed as failed:
            return {
                "types": failed.error_types,
                "causes": failed.causes,
                "raised_at": "raise CardDeclined(how) from error" in failed.traceback,
                "shown": "the bank is away" in str(failed.__cause__),
            }
        return {}

    async with Worker(provider, workflows=[order], activities=[pays]):
        assert await (await WorkflowClient(provider).start(order, id="o-1")).result(10) == {
            "types": ["CardDeclined", "ValueError", "Exception"],
            "causes": ["ConnectionError: the bank is away"],
            "raised_at": True,
            "shown": True,
        }
    (record,) = [each for each in caplog.records if each.name == "queen.durable.worker" and each.exc_info]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "activity 'pays' of o-1 (step 2, attempt 1) raised CardDeclined: once"
    assert record.__dict__["instance_id"] == "o-1"


async def test_a_failed_workflow_tells_its_client_why(provider: Provider) -> None:
    @workflow
    async def order(ctx: WorkflowContext) -> str:
        return await ctx.activity(pays, "once")

    @workflow
    async def broken(ctx: WorkflowContext) -> int:
        return int({"a": 1}["b"])

    async with Worker(provider, workflows=[order, broken], activities=[pays]):
        client = WorkflowClient(provider)
        with pytest.raises(WorkflowFailed, match="CardDeclined: once") as failed:
            await (await client.start(order)).result(10)
        details = failed.value.details
        assert isinstance(details, ApplicationFailure)
        assert details.causes == ("ConnectionError: the bank is away",)
        assert "raise CardDeclined(how) from error" in details.traceback
        with pytest.raises(WorkflowFailed, match="KeyError: 'b'") as failed:
            await (await client.start(broken)).result(10)
        assert 'return int({"a": 1}["b"])' in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("how", "policy", "runs"),
    [
        ("never", RetryPolicy(max_attempts=4), 1),
        ("types", RetryPolicy(max_attempts=4, non_retryable=[CardDeclined]), 1),
        ("bases", RetryPolicy(max_attempts=4, non_retryable=[ValueError]), 1),
        ("names", RetryPolicy(max_attempts=4, non_retryable=["CardDeclined"]), 1),
        ("others", RetryPolicy(max_attempts=2, non_retryable=[KeyError]), 2),
    ],
)
async def test_errors_not_worth_another_attempt(provider: Provider, how: str, policy: RetryPolicy, runs: int) -> None:
    @workflow
    async def order(ctx: WorkflowContext) -> str:
        return await ctx.activity(pays, how, retry=policy)

    RUNS.clear()
    async with Worker(provider, workflows=[order], activities=[pays]):
        with pytest.raises(WorkflowFailed):
            await (await WorkflowClient(provider).start(order)).result(10)
    assert len(RUNS) == runs


@activity
async def copies(ctx: ActivityContext, pages: int) -> list[int]:
    begun: int = ctx.progress or 0
    RUNS.append((ctx.idempotency_key, begun))
    for page in range(begun, pages):
        ctx.heartbeat(page + 1)
        if page % 2 == 1 and page + 1 < pages:
            raise ConnectionError(f"lost at page {page}")
    return [begun for _, begun in RUNS]


async def test_whoever_takes_over_reads_how_far_it_came(provider: Provider, address: Address) -> None:
    """A worker that goes down in the middle: another one gets the activity, and what it had told."""

    @activity
    async def long(ctx: ActivityContext) -> int:
        if ctx.progress is None:
            for page in range(43):
                ctx.heartbeat(page)
            await asyncio.sleep(3600)
        found: int = ctx.progress
        return found

    @workflow
    async def waiting(ctx: WorkflowContext) -> int:
        return await ctx.activity(long)

    async def stored() -> bool:
        rows = await address.execute("select body from {}work_items")
        return any('"progress":"42"' in each[0] for each in rows)

    first = Worker(provider, workflows=[waiting], activities=[long])
    await first.start()
    handle = await WorkflowClient(provider).start(waiting)
    await eventually(stored)
    await first.stop(0)
    async with Worker(provider, workflows=[waiting], activities=[long]):
        assert await handle.result(20) == 42


async def test_an_attempt_reads_how_far_the_one_before_came(provider: Provider) -> None:
    @workflow
    async def copying(ctx: WorkflowContext) -> list[int]:
        return await ctx.activity(copies, 6, retry=RetryPolicy(max_attempts=5))

    RUNS.clear()
    async with Worker(provider, workflows=[copying], activities=[copies]):
        assert await (await WorkflowClient(provider).start(copying)).result(10) == [0, 2, 4]
    assert len({key for key, _ in RUNS}) == 1, "one idempotency key for all attempts"
