"""Workflows as `async def`: composition, cancellation with clean-up, what may not be awaited."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from queen.durable import Cancelled, RegistrationError, WorkflowContext, activity, messages, workflow
from queen.durable.definition import Workflow
from queen.durable.errors import ActivityFailed, ChildFailed, NondeterminismDetected
from queen.durable.replay.check import check_replay
from tests.durable.replay.stage import FIRST_MS, Stage


@dataclass(frozen=True)
class Order:
    id: str
    cents: int


@activity
def charge(order: Order) -> str:
    return order.id


@activity
async def add(left: int, right: int) -> int:
    return left + right


@activity
def nothing() -> None:
    return None


@workflow
async def kid(ctx: WorkflowContext, number: int) -> int:
    return number


def stage(made: Workflow[Any, *tuple[Any, ...]], value: str = "null") -> Stage:
    playing = Stage(entry=made.entry)
    playing.start(value)
    return playing


def test_arguments_and_results_are_typed() -> None:
    @workflow
    async def pay(ctx: WorkflowContext, order: Order, times: int) -> list[str]:
        assert isinstance(order, Order)
        return [await ctx.activity(charge, order) for _ in range(times)]

    playing = stage(pay, pay.encode((Order("o", 5), 1)))
    assert playing.tasks[0].input == '{"id":"o","cents":5}'
    playing.feed(playing.done(2, '"receipt"'))
    assert playing.output == '["receipt"]'


def test_a_wrong_input_fails_the_workflow_and_says_where() -> None:
    @workflow
    async def pay(ctx: WorkflowContext, order: Order) -> str:
        return await ctx.activity(charge, order)

    playing = stage(pay, '{"id": "o", "cents": "many"}')
    assert playing.error == "ValidationError: Expected `int`, got `str` - at `$.cents`"


def test_many_arguments_and_none() -> None:
    @workflow
    async def sums(ctx: WorkflowContext) -> int:
        await ctx.activity(nothing)
        return await ctx.activity(add, 1, 2)

    playing = stage(sums)
    assert playing.tasks[0].input == "null"
    playing.feed(playing.done(2))
    assert playing.tasks[1].input == "[1,2]"
    with pytest.raises(TypeError, match="missing a required argument"):
        add.encode((1,))


def test_race_takes_any_number_and_nests() -> None:
    @workflow
    async def racing(ctx: WorkflowContext) -> Any:
        async def two_steps() -> str:
            await ctx.sleep(1)
            await ctx.sleep(1)
            return "two steps"

        first = await ctx.race(
            ctx.event("a"),
            ctx.gather(ctx.event("b"), ctx.event("c")),
            ctx.race(ctx.event("d"), ctx.event("e")),
            two_steps(),
        )
        return [first.index, first.value.index, first.value.value]

    playing = stage(racing)
    playing.feed(playing.raised("b"))
    playing.feed(playing.raised("e", '"it"'))
    assert playing.output == '[2,1,"it"]'
    assert playing.kinds.count("ExternalSubscribedCancelled") == 3, "a, c and d"


def test_time_and_ids_in_a_gather_cost_no_history() -> None:
    @workflow
    async def values(ctx: WorkflowContext) -> Any:
        first = (ctx.now(), ctx.uuid(), ctx.random.random())
        await ctx.sleep(1)
        return [first, ctx.now(), ctx.uuid()]

    playing = stage(values)
    assert playing.kinds == ["OrchestrationStarted", "TimerCreated"]
    playing.feed(playing.fired(2))
    again = stage(values)
    again.feed(again.fired(2))
    assert playing.output == again.output
    assert "2023-11-14T22:13:21Z" in playing.output, FIRST_MS


def test_gather_raises_the_first_failure_and_settle_collects() -> None:
    @workflow
    async def both(ctx: WorkflowContext) -> Any:
        text = ""
        try:
            await ctx.gather(ctx.activity(add, 1, 2), ctx.activity(add, 3, 4))
        except ActivityFailed as error:
            text = str(error)
        settled = await ctx.settle(ctx.activity(add, 5, 6), ctx.child(kid, 1))
        return [text, settled[0], str(settled[1])]

    playing = stage(both)
    playing.feed(playing.broken(3, "no"))
    playing.feed(playing.done(2, "3"))
    playing.feed(playing.done(5, "11"))
    failed = messages.SubOrchestrationFailedMessage(
        instance="i",
        execution_id=1,
        parent_event_id=6,
        details=playing.broken(1, "kid").details,  # type: ignore[union-attr]
    )
    playing.feed(failed)
    assert playing.output == '["no",11,"kid"]'


def test_a_child_failure_is_its_own_class() -> None:
    @workflow
    async def mother(ctx: WorkflowContext) -> str:
        try:
            await ctx.child(kid, 1, id="k")
        except ChildFailed as error:
            return f"{error.code}: {error}"
        return "none"

    playing = stage(mother)
    details = playing.broken(1, "oh").details  # type: ignore[union-attr]
    playing.feed(
        messages.SubOrchestrationFailedMessage(instance="i", execution_id=1, parent_event_id=2, details=details)
    )
    assert playing.output == '"CHILD_FAILED: oh"'


def test_requests_are_made_when_called_not_when_awaited() -> None:
    @workflow
    async def eager(ctx: WorkflowContext) -> Any:
        never = ctx.activity(add, 0, 0)
        later = ctx.activity(add, 1, 2)
        await ctx.sleep(1)
        del never
        return await later

    playing = stage(eager)
    assert playing.kinds[1:] == ["ActivityScheduled", "ActivityScheduled", "TimerCreated"]
    playing.feed(playing.done(3, "3"))
    playing.feed(playing.fired(4))
    assert playing.output == "3"
    assert playing.kinds[-2] == "ActivityCancelRequested", "the one nobody awaited"


def test_wait_gives_up_in_time() -> None:
    @workflow
    async def waiting(ctx: WorkflowContext) -> str:
        try:
            return str(await ctx.wait(ctx.event("go", str), timedelta(hours=1)))
        except TimeoutError:
            return await ctx.wait(ctx.event("go", str), 5)

    playing = stage(waiting)
    playing.feed(playing.fired(3))
    playing.feed(playing.raised("go", '"now"'))
    assert playing.output == '"now"'


def test_a_buffered_event_may_come_before_the_wait() -> None:
    @workflow
    async def late(ctx: WorkflowContext) -> Any:
        await ctx.sleep(1)
        return [await ctx.event("e", buffered=True), await ctx.event("e", buffered=True)]

    playing = stage(late)
    playing.feed(playing.raised("e", "1"))
    playing.feed(playing.fired(2))
    playing.feed(playing.raised("e", "2"))
    assert playing.output == "[1,2]"


def test_cancelling_lets_the_code_clean_up_durably() -> None:
    @workflow
    async def careful(ctx: WorkflowContext) -> str:
        try:
            await ctx.activity(add, 1, 2)
        except Cancelled as cancelled:
            undone = await ctx.activity(charge, Order(cancelled.reason, 0))
            ctx.status = undone
            raise
        return "done"

    playing = stage(careful)
    playing.feed(playing.cancel("enough"))
    assert playing.turns[-1].outcome is None, "it goes on with its clean-up"
    assert [each.name for each in playing.tasks] == ["charge"]
    playing.feed(playing.done(playing.tasks[0].activity_id, '"undone"'))
    assert playing.error == "canceled: enough"
    assert playing.kinds[-2:] == ["CustomStatusUpdated", "OrchestrationFailed"]
    check_replay(playing.history, careful.entry)


def test_the_loser_of_a_race_cleans_up_too() -> None:
    @workflow
    async def racing(ctx: WorkflowContext) -> str:
        async def slow() -> None:
            try:
                await ctx.sleep(100)
            finally:
                ctx.status = "cleaned"

        await ctx.race(slow(), ctx.event("go"))
        return "done"

    playing = stage(racing)
    playing.feed(playing.raised("go"))
    assert playing.output == '"done"'
    assert playing.kinds.count("CustomStatusUpdated") == 1


def test_continue_as_new_ends_the_execution() -> None:
    @workflow
    async def counting(ctx: WorkflowContext, number: int) -> int:
        if number < 3:
            ctx.continue_as_new(number + 1)
        return number

    playing = stage(counting, "1")
    for _ in range(2):
        again = next(each for each in playing.sent if isinstance(each, messages.ContinueAsNewMessage))
        playing.sent.clear()
        playing.feed(again)
    assert playing.output == "3"
    assert playing.execution_id == 3


def test_foreign_awaitables_are_refused() -> None:
    @workflow
    async def wrong(ctx: WorkflowContext) -> None:
        await asyncio.sleep(0)

    @workflow
    async def recovers(ctx: WorkflowContext) -> str:
        try:
            await asyncio.sleep(0)
        except TypeError as error:
            return str(error)
        return ""

    assert "can only await what its context gives it" in stage(wrong).error
    assert "put other waiting into an activity" in stage(recovers).output


def test_changed_async_code_is_detected() -> None:
    @workflow
    async def before(ctx: WorkflowContext) -> None:
        await ctx.activity(add, 1, 2)
        await ctx.sleep(1)

    @workflow
    async def after(ctx: WorkflowContext) -> None:
        await ctx.sleep(1)
        await ctx.activity(add, 1, 2)

    playing = stage(before)
    playing.feed(playing.done(2, "3"))
    check_replay(playing.history, before.entry)
    with pytest.raises(NondeterminismDetected, match="at event 2 history has ActivityScheduled"):
        check_replay(playing.history, after.entry)


def test_a_workflow_must_be_async_and_its_types_known() -> None:
    with pytest.raises(RegistrationError, match="must be an async def"):
        workflow(lambda ctx: None)  # type: ignore[arg-type, return-value]


def test_pushes_are_recorded_once_with_an_id_of_their_own() -> None:
    @workflow
    async def pushing(ctx: WorkflowContext) -> None:
        ctx.push("orders", {"n": 1}, partition="p")
        await ctx.sleep(1)

    playing = stage(pushing)
    first = playing.turns[0].commit.pushes
    assert [(each.queue, each.partition, each.payload, each.transaction_id) for each in first] == [
        ("orders", "p", '{"n":1}', "i:1:2")
    ]
    assert playing.feed(playing.fired(3)).commit.pushes == ()
