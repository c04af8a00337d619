"""Whatever a workflow waits for, and in whatever order the answers come: the history replays."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from queen.durable import Cancelled, WorkflowContext, activity, events, messages, workflow
from queen.durable.definition import Workflow
from queen.durable.replay.check import check_replay
from tests.durable.replay.stage import Stage

Program = list[Any]

LEAVES = st.one_of(
    st.tuples(st.just("activity"), st.integers(0, 3)),
    st.tuples(st.just("timer"), st.integers(0, 100)),
    st.tuples(st.just("child"), st.integers(0, 3)),
    st.tuples(st.just("event"), st.sampled_from("ab")),
    st.tuples(st.just("receive"), st.sampled_from("ab")),
    st.tuples(st.just("status"), st.integers(0, 3)),
    st.tuples(st.just("key"), st.integers(0, 3)),
)
STEPS = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["gather", "race", "sequence"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=4)


@activity
async def echo(number: int) -> int:
    return number


@workflow
async def kid(ctx: WorkflowContext, number: int) -> int:
    return number


async def step(ctx: WorkflowContext, wanted: Any) -> Any:
    kind, detail = wanted
    if kind == "sequence":
        return [await step(ctx, each) for each in detail]
    if kind in ("gather", "race"):
        branches = [step(ctx, each) for each in detail]
        return await (ctx.gather(*branches) if kind == "gather" else ctx.race(*branches))
    return await leaf(ctx, kind, detail)


async def leaf(ctx: WorkflowContext, kind: str, detail: Any) -> Any:
    match kind:
        case "activity":
            return await ctx.activity(echo, detail)
        case "timer":
            return await ctx.sleep(detail)
        case "child":
            return await ctx.child(kid, detail)
        case "event":
            return await ctx.event(detail)
        case "receive":
            return await ctx.receive(detail)
        case "status":
            ctx.status = detail
        case _:
            ctx.set_key("k", detail)
    return None


def workflow_of(program: Program) -> Workflow[Any, *tuple[Any, ...]]:
    """A workflow that does what the program says."""

    @workflow
    async def run(ctx: WorkflowContext) -> str:
        try:
            for each in program:
                await step(ctx, each)
        except Cancelled:
            await ctx.activity(echo, 99)
        return "done"

    return run


def outstanding(stage: Stage) -> list[Any]:
    """Every message that could arrive next."""
    found: list[Any] = [stage.done(each.activity_id, each.input) for each in stage.tasks]
    found += [each for each in stage.sent if isinstance(each, messages.TimerFiredMessage)]
    starts = [each for each in stage.sent if isinstance(each, messages.StartMessage)]
    found += [stage.child_done(each.parent_event_id or 0, "1") for each in starts]
    found += [stage.raised(name, "1") for name in "ab"] + [stage.queued(name, "1") for name in "ab"]
    return found


@settings(max_examples=60, deadline=None)
@given(program=PROGRAMS, data=st.data())
def test_any_order_of_arrival_gives_a_history_that_replays(program: Program, data: st.DataObject) -> None:
    made = workflow_of(program)
    stage = Stage(entry=made.entry)
    stage.start()
    for _ in range(60):
        if stage.turns[-1].outcome is not None:
            break
        choices = outstanding(stage)
        batch = data.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3))
        if data.draw(st.integers(0, 30)) == 0:
            batch.append(stage.cancel())
        stage.feed(*batch)
        for message in batch:
            if message in stage.sent:
                stage.sent.remove(message)
    check_history(stage)
    for cut in [*range(1, len(stage.history), 7), len(stage.history)]:
        check_replay(stage.history[:cut], made.entry)


def check_history(stage: Stage) -> None:
    history = stage.history
    assert [each.event_id for each in history] == list(range(1, len(history) + 1))
    terminal = [
        each for each in history if isinstance(each, events.OrchestrationCompleted | events.OrchestrationFailed)
    ]
    assert terminal == ([history[-1]] if stage.turns[-1].outcome is not None else [])
    kinds: dict[type[events.Event], type[events.Event]] = {
        events.ActivityCompleted: events.ActivityScheduled,
        events.TimerFired: events.TimerCreated,
        events.SubOrchestrationCompleted: events.SubOrchestrationScheduled,
    }
    by_id = {each.event_id: each for each in history}
    answered = [each for each in history if type(each) in kinds]
    assert len({each.source_event_id for each in answered}) == len(answered)
    for each in answered:
        schedule = by_id[each.source_event_id or 0]
        assert type(schedule) is kinds[type(each)]
        assert schedule.event_id < each.event_id
