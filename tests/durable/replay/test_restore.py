"""A new execution from any step of an old one: it ends the same, and asks for nothing that had been answered before."""

from __future__ import annotations

from typing import Any

import pytest

from queen.durable import events, messages
from queen.durable.errors import StepNotFound
from queen.durable.model import KeyValue
from queen.durable.replay.restore import restore
from queen.durable.replay.turn import Failed
from tests.durable.replay.stage import Stage, go_on, ids, play


def story(ctx: Any, value: Any) -> Any:
    first = yield ctx.schedule_activity("first", value)
    ctx.set_kv_value("seen", f"{ctx.get_kv_value('seen') or ''}x")
    now = yield ctx.utc_now()
    yield ctx.schedule_timer(10)
    both = yield ctx.all([ctx.schedule_activity("left", 1), ctx.schedule_activity("right", 2)])
    raced = yield ctx.race(ctx.schedule_activity("quick", 3), ctx.wait_for_event("never"))
    ctx.set_custom_status("nearly")
    kid = yield ctx.schedule_sub_orchestration("kid", 5)
    message = yield ctx.dequeue_event("q")
    return [first, both, raced["index"], kid, message, now > 0, ctx.get_kv_value("seen")]


STORY = play(story, {"queue": ["q"]})
STEPS = [
    each.event_id
    for each in STORY.history
    if isinstance(
        each,
        events.ActivityScheduled
        | events.TimerCreated
        | events.SubOrchestrationScheduled
        | events.QueueSubscribed
        | events.KeyValueSet
        | events.CustomStatusUpdated,
    )
]


def begun_again(stage: Stage, from_step: int | None, code: Any = story) -> Stage:
    restored = restore(stage.history, keys=(), from_step=from_step, suffix="~2")
    again = Stage(code)
    again.execution_id = 2
    again.kv = {"seen": KeyValue("what the first execution left", 1)}
    again.feed(messages.ContinueAsNewMessage(instance="i", name="o", input="null", execution_id=2, restored=restored))
    return again


@pytest.mark.parametrize("step", STEPS)
def test_from_any_step_it_ends_the_same(step: int) -> None:
    again = begun_again(STORY, step)
    answered = {each.source_event_id for each in STORY.history if each.source_event_id is not None}
    kept = {each for each in answered if each < step}
    asked = {each.activity_id for each in again.tasks}
    assert not asked & kept, "what was answered is not asked for again"
    go_on(again)
    assert again.output == STORY.output
    assert ids(again.history) == list(range(1, len(again.history) + 1))
    assert again.history[: step - 1][1:] == [
        type(each)(**{**{name: getattr(each, name) for name in each.__struct_fields__}, "execution_id": 2})
        for each in STORY.history[1 : step - 1]
    ], "what came before the step is as it was"


def test_every_step_is_among_them() -> None:
    assert len(STEPS) == 10
    with pytest.raises(StepNotFound, match="there is no step 3"):
        restore(STORY.history, keys=(), from_step=3, suffix="")


def test_without_a_step_only_the_last_failure_is_tried_again() -> None:
    stage = Stage(story)
    stage.start("1")
    stage.feed(stage.done(2, "1"))
    timer = next(each.event_id for each in stage.history if isinstance(each, events.TimerCreated))
    stage.feed(stage.fired(timer))
    left, right = (each.activity_id for each in stage.tasks[-2:])
    quick = stage.feed(stage.done(left, "1"), stage.done(right, "2")).commit.worker_items[0].activity_id
    stage.feed(stage.broken(quick))
    assert isinstance(stage.turns[-1].outcome, Failed)
    again = begun_again(stage, None)
    assert [each.activity_id for each in again.tasks] == [quick]
    started = again.history[0]
    assert isinstance(started, events.OrchestrationStarted)
    before = stage.history[0]
    assert isinstance(before, events.OrchestrationStarted)
    assert again.tasks[0].seed == before.seed_at(quick), "and keeps its idempotency key"
    go_on(again, {"queue": ["q"]})
    assert again.output == STORY.output


def test_work_that_is_still_open_is_asked_for_again() -> None:
    stage = Stage(story)
    stage.start("1")
    again = begun_again(stage, None)
    assert [(each.activity_id, each.execution_id) for each in again.tasks] == [(2, 2)]
    kid = begun_again(
        STORY, next(each for each in STEPS if isinstance(STORY.history[each - 1], events.QueueSubscribed))
    )
    assert not [each for each in kid.sent if isinstance(each, messages.StartMessage)], "the child had answered"
